"""Files of text as programs and people write them: one table, in whatever encoding, with whatever lines around it."""

import gzip

import numpy as np
import pandas as pd
import pytest

from bayesdrop.data.table_files import InputError, read_file
from bayesdrop.data.tables import encode, read_table


@pytest.fixture
def table(shop):
    return shop.assign(color=shop["color"].map({"red": "rot", "green": "grün", "blue": "weiß"}))


def _text(table, **options):
    return table.to_csv(index=False, **options)


WRITERS = {
    "UTF-8": lambda t: _text(t).encode(),
    "UTF-8 with a mark": lambda t: _text(t).encode("utf-8-sig"),
    "UTF-16": lambda t: _text(t, sep="\t").encode("utf-16"),
    "UTF-16, the other order": lambda t: b"\xfe\xff" + _text(t).encode("utf-16-be"),
    "UTF-16 without a mark": lambda t: _text(t).encode("utf-16-le"),
    "UTF-32": lambda t: _text(t).encode("utf-32"),
    "Windows-1252": lambda t: _text(t, sep=";").encode("cp1252"),
    "decomposed letters": lambda t: _text(t).replace("ü", "u\u0308").encode(),
    "separator stated": lambda t: ("sep=;\n" + _text(t, sep=";")).encode(),
    "another separator stated": lambda t: ("sep=^\r\n" + _text(t, sep="^")).encode(),
    "comments": lambda t: ("# lab, v2\n#\n# a comment\n" + _text(t) + "# the end\n").encode(),
    "a comment within": lambda t: _text(t).replace("\n", "\n# here\n", 5).encode(),
    "names after a mark": lambda t: ("## lab\n#" + _text(t, sep="\t")).encode(),
    "carriage returns": lambda t: _text(t, lineterminator="\r\n").encode(),
    "carriage returns alone": lambda t: _text(t, lineterminator="\r").encode(),
    "blank lines": lambda t: ("\n\n" + _text(t).replace("\n", "\n\n")).encode(),
    "rows without values": lambda t: (_text(t, sep=";") + ";;;;\n;;;;\n").encode(),
    "a separator at every end": lambda t: _text(t).replace("\n", ",\n").encode(),
    "a separator at every end but the first": lambda t: _text(t).replace("\n", ",\n").replace(",\n", "\n", 1).encode(),
    "quotes everywhere": lambda t: _text(t, quoting=1).encode(),
    "blanks around": lambda t: _text(t).replace(",", " , ").encode(),
    "a comma in a name": lambda t: _text(t.rename(columns={"visits": "visits, all"}), sep=";").encode(),
}  # fmt: skip


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("zipped", [False, True])
def test_one_table_however_its_file_is_written(table, tmp_path, how, zipped):
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    content = WRITERS[how](table)
    path.write_bytes(gzip.compress(content) if zipped else content)
    found, expected = read_table(path, "bought"), encode(table, "bought")
    names = [name.replace("visits, all", "visits") for name in found.feature_names]
    assert names == expected.feature_names
    np.testing.assert_allclose(found.X, expected.X, atol=1e-12)
    np.testing.assert_array_equal(found.y, expected.y)
    assert any("no UTF-8: read as Windows-1252" in note for note in found.notes) == (how == "Windows-1252")
    assert any("beginning with # skipped" in note for note in found.notes) == ("comment" in how or "after" in how)


def test_lines_are_those_of_the_file(tmp_path):
    (tmp_path / "t.csv").write_text('sep=;\n# a comment\n\na;b\n1;"two\nlines"\n# here\n2;x\n\n;\n3;y\n')
    assert read_file(tmp_path / "t.csv").frame["b"].to_dict() == {6: "two\nlines", 8: "x", 11: "y"}


def test_an_na_of_r_is_missing_where_r_quotes_its_texts(tmp_path):
    (tmp_path / "t.csv").write_text('"","a","b","c"\n"1",NA,"NA","x, NA,"\n"2",2,NA,"y"\n"3",NA,NA,NA')
    frame = read_file(tmp_path / "t.csv").frame
    assert frame.columns.tolist() == ["Unnamed: 0", "a", "b", "c"]
    assert frame.values.tolist() == [["1", "", "NA", "x, NA,"], ["2", "2", "", "y"], ["3", "", "", ""]]
    (tmp_path / "t.csv").write_text("a,b\nNA,NA\n")
    assert read_file(tmp_path / "t.csv").frame.values.tolist() == [["NA", "NA"]]


@pytest.mark.parametrize(
    ("first", "rows", "row"),
    [
        ("34,1.5,red,yes", ["28,2.5,blue,no", "41,0.5,red,yes"], True),
        ("p1,34,1.5", ["p2,3,2.5", "p3,4,0.5"], True),
        ("red,yes", ["blue,no", "red,no", "blue,yes"], True),
        ("5,3,1", ["4,2,0", "1,3,1"], True),
        ('"1,5",x', ['"2,5",y', '"3,25",x'], True),
        ("3 kg,x", ["4 kg,y", "5 kg,x"], True),
        ("a,b,c", ["5,3,1", "2,2,2"], False),
        ("0,1,2,3", ["5,3,1,1", "2,2,2,2"], False),
        ("country,2019,2020,2021", ["Peru,3.1,2.2,1.5", "Chad,3.2,2.1,4.4"], False),
        ("country,2010,2015,2020", ["Peru,3.1,2.2,1.5", "Chad,3.2,2.1,4.4"], False),
        (",0,1", ["0,5,3", "1,2,2"], False),
        ("name,color", ["Ann,red", "Bob,red"], False),
        ("1st,2nd", ["5,3", "2,2"], False),
        ("size,5,x", ["1.5,3,y", "2.5,4,y"], False),
    ],
)
def test_a_first_line_that_is_a_row(tmp_path, first, rows, row):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([first, *rows]) + "\n")
    if row:
        with pytest.raises(InputError, match="the first line of t.csv looks like a row .* --header none"):
            read_file(path)
    else:
        assert len(read_file(path).frame) == len(rows)
    assert len(read_file(path, "first").frame) == len(rows)
    none = read_file(path, "none").frame
    assert len(none) == len(rows) + 1
    assert none.columns.tolist() == [f"x{j}" for j in range(none.shape[1])]


def test_a_column_that_is_asked_for_is_a_name(tmp_path):
    (tmp_path / "t.csv").write_text("color,answer\nred,color\nblue,answer\nred,answer\n")
    assert len(read_file(tmp_path / "t.csv", names=["answer"]).frame) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,\x81\x8d\n", "neither UTF-8, UTF-16 nor Windows-1252; save it as CSV in UTF-8"),
        (b"\xff\xfea\x00,\x00b\x00\n", "neither UTF-8, nor the utf-16 that it begins with; save"),
        (b"a,b\r\n1,2\r\n3,\x00\r\n", "line 3 of t.csv holds a NUL byte"),
        (b"# nothing but a comment\n", "t.csv is empty"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 of t.csv has more fields than its header, 3 instead of 2"),
        (b"a,b\n1,2\n(2 rows)\n", "line 3 of t.csv has less fields than its header, 1 instead of 2"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_file(tmp_path / "t.csv")


def test_frames_of_files_hold_texts(table, tmp_path):
    (tmp_path / "t.csv").write_text(_text(table))
    pd.testing.assert_frame_equal(
        read_file(tmp_path / "t.csv").frame.reset_index(drop=True).astype(str), table.astype(str), check_dtype=False
    )
