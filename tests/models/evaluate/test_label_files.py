import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.models.evaluate.label_files import read_labels
from edgepipe.models.evaluate.labels_coco import results_of
from edgepipe.models.evaluate.labels_mot import SAME_AS
from edgepipe.models.evaluate.truths import ClassMap, Objects
from tests.models.evaluate.drawn import boxed

COCO: dict[str, Any] = {
    "categories": [{"id": 7, "name": "Traffic Light"}, {"id": 3, "name": "car"}],
    "images": [
        {"id": 50, "file_name": "night/frame_0001.jpg"},
        {"id": 51, "file_name": "night/frame_0002.jpg"},
    ],
    "annotations": [
        {"image_id": 50, "category_id": 3, "bbox": [1, 2, 10, 20], "area": 99.0},
        {"image_id": 50, "category_id": 7, "bbox": [0, 0, 5, 5], "iscrowd": 1},
    ],
}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_coco_has_images_by_name_and_by_number_and_categories_in_its_order(
    tmp_path: Path,
) -> None:
    labels = read_labels(write(tmp_path, "gt.json", json.dumps(COCO)))
    assert labels.names == ("Traffic Light", "car")
    first = labels.of(0, "frame_0001")
    assert first is not None
    assert first is labels.of(0, None)
    assert first.xyxy.tolist() == [[1, 2, 11, 22], [0, 0, 5, 5]]
    assert first.label.tolist() == [1, 0]
    assert first.crowd.tolist() == [False, True]
    assert first.area is not None
    assert first.area.tolist() == [99.0, 25.0]
    empty = labels.of(1, "frame_0002")
    assert empty is not None
    assert len(empty.label) == 0
    assert labels.of(2, None) is None


def test_frames_count_from_nought_where_one_is_nought(tmp_path: Path) -> None:
    document = {**COCO, "images": [{"id": 50, "file_name": "000.png"}]}
    labels = read_labels(write(tmp_path, "gt.json", json.dumps(document)))
    assert list(labels.by_number) == [0]
    document = {**COCO, "images": [{"id": 50, "file_name": "004.png"}]}
    labels = read_labels(write(tmp_path, "gt.json", json.dumps(document)))
    assert list(labels.by_number) == [3]


def test_names_without_numbers_belong_to_images_alone(tmp_path: Path) -> None:
    document = {**COCO, "images": [{"id": 50, "file_name": "yard.png"}]}
    labels = read_labels(write(tmp_path, "gt.json", json.dumps(document)))
    assert labels.of(0, None) is None
    assert labels.of(5, "yard") is not None


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (["images"], None, "images: expected a list"),
        (["annotations"], 3, "annotations: expected a list"),
        (["categories"], [3], "categories[0]: expected an object"),
        (["annotations", 1, "bbox"], [1, 2, 3], "annotations[1]: bbox"),
        (["annotations", 0, "bbox"], [1, 2, 0, 3], "a size above 0"),
        (["annotations", 0, "bbox"], [1, 2, "3", 4], "four numbers"),
        (["annotations", 0, "bbox"], [10**400] * 4, "four numbers"),
        (["annotations", 0, "bbox"], "none", "four numbers"),
        (["annotations", 0, "image_id"], 9, "image_id 9 is not"),
        (["annotations", 0, "category_id"], 9, "category_id 9 is not"),
        (["annotations", 0, "image_id"], "50", "a whole number"),
        (["annotations", 0, "category_id"], None, "got None"),
    ],
)
def test_bad_coco_is_one_line_with_its_place(
    tmp_path: Path, place: list[Any], value: object, words: str
) -> None:
    document = json.loads(json.dumps(COCO))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = write(tmp_path, "gt.json", json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_labels(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_and_names_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    # The last one would take the place of the one before, with its labels.
    for part in ("images", "categories"):
        document = json.loads(json.dumps(COCO))
        document[part].append(dict(document[part][0]))
        path = write(tmp_path, "gt.json", json.dumps(document))
        with pytest.raises(InputError, match=r"\[\d\]: id: \d+ is there twice"):
            read_labels(path)
    document = json.loads(json.dumps(COCO))
    name = document["images"][0]["file_name"]
    document["images"].append({"id": 999, "file_name": f"other/{name}"})
    path = write(tmp_path, "gt.json", json.dumps(document))
    with pytest.raises(InputError, match="999 are both called"):
        read_labels(path)


def test_images_may_have_the_folders_of_another_system(tmp_path: Path) -> None:
    document = json.loads(json.dumps(COCO))
    wanted = {*read_labels(write(tmp_path, "a.json", json.dumps(document))).by_name}
    for image in document["images"]:
        image["file_name"] = "D:\\shots\\" + image["file_name"]
    found = read_labels(write(tmp_path, "b.json", json.dumps(document))).by_name
    assert {*found} == wanted


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"images": NaN}', "[" * 9999, '{"images": ' + "9" * 9999]
)
def test_what_is_no_coco_is_one_line(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "gt.json", text)
    with pytest.raises(InputError, match=r"gt\.json") as caught:
        read_labels(path)
    assert "\n" not in str(caught.value)


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "gt.json", '{\n "images": [],\n "annotations": [}\n')
    with pytest.raises(InputError, match=r"gt\.json:3: no JSON"):
        read_labels(path)


MOT16 = """\
1,1,10,20,30,40,1,1,0.9
1,2,0,0,5,5,0,1,1
1,3,5,5,10,10,1,7,1

3,1,11,20,30,40,1,3,1
3,4,1,1,2,2,1,9,1
"""


def test_motchallenge_ignores_what_it_marks_and_people_who_only_look_like_it(
    tmp_path: Path,
) -> None:
    labels = read_labels(write(tmp_path, "gt.txt", MOT16))
    first = labels.of(0, None)
    assert first is not None
    assert first.xyxy.tolist() == [[10, 20, 40, 60], [0, 0, 5, 5], [5, 5, 15, 15]]
    assert first.ignore.tolist() == [False, True, True]
    third = labels.of(2, None)
    assert third is not None
    assert [labels.names[k] for k in third.label] == ["car"]
    assert labels.of(1, None) is None
    assert labels.notes == ("class 9 of the labels is not judged",)


def test_boxes_of_motchallenge_2015_are_people(tmp_path: Path) -> None:
    labels = read_labels(write(tmp_path, "gt.txt", "1,1,10,20,30,40,1,-1,-1,-1\n"))
    objects = labels.of(0, None)
    assert objects is not None
    assert objects.label.tolist() == [0]
    assert ClassMap(labels.names, ("dog", "pedestrian"), SAME_AS).to_network[0] == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,1,10,20,30", "got 5 values"),
        ("1,1,10,20,30,forty", "expected a number, got 'forty'"),
        ("1,1,10,20,30,nan", "a finite number"),
        ("0,1,10,20,30,40", "count from 1"),
        ("1.5,1,10,20,30,40", "a whole number"),
        ("-1,1,10,20,30,40", "a whole number"),
        ("1e300,1,10,20,30,40", "a whole number"),
        ("1,1,10,20,0,40", "a width and height above 0"),
        ("frame,id,left,top,width,height", "expected a number"),
    ],
)
def test_a_bad_line_of_motchallenge_is_named(
    tmp_path: Path, line: str, words: str
) -> None:
    path = write(tmp_path, "gt.txt", f"1,1,1,1,1,1\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_labels(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)


def test_a_folder_of_yolo_has_shares_of_the_picture(tmp_path: Path) -> None:
    write(tmp_path, "labels/clip_1.txt", "1 0.5 0.5 0.5 1.0\n")
    write(tmp_path, "labels/clip_2.txt", "")
    write(tmp_path, "classes.txt", "walker\ncart\n")
    labels = read_labels(tmp_path / "labels")
    assert (labels.names, labels.normalised) == (("walker", "cart"), True)
    objects = labels.of(0, None)
    assert objects is not None
    truth = ClassMap(labels.names, ("cart",)).truth(objects, (320.0, 100.0))
    assert truth.xyxy.tolist() == [[80.0, 0.0, 240.0, 100.0]]
    assert truth.class_id.tolist() == [0]
    assert labels.of(1, None) is not None
    assert labels.of(2, None) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 0.5 0.5 0.5", "got 4 values"),
        ("0 120 80 40 40", "inside of 0..1"),
        ("0 0.1 0.5 0.4 0.2", "inside of 0..1"),
        ("0 0.5 0.5 0 0.2", "inside of 0..1"),
        ("2 0.5 0.5 0.2 0.2", "class 2, and there are 2 names"),
        ("0.5 0.5 0.5 0.2 0.2", "a whole number"),
        ("1e300 0.5 0.5 0.2 0.2", "a whole number"),
        ("car 0.5 0.5 0.2 0.2", "expected a number, got 'car'"),
    ],
)
def test_a_bad_line_of_yolo_is_named(tmp_path: Path, line: str, words: str) -> None:
    write(tmp_path, "classes.txt", "walker\ncart\n")
    path = write(tmp_path, "a_1.txt", f"0 0.5 0.5 0.2 0.2\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_labels(tmp_path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["nothing.json", "nothing.txt", "labels.xml", "empty"])
def test_labels_that_are_not_there_are_one_line(tmp_path: Path, name: str) -> None:
    if name == "empty":
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=name):
        read_labels(tmp_path / name)


def test_the_hash_is_that_of_names_and_contents(tmp_path: Path) -> None:
    write(tmp_path, "a_1.txt", "0 0.5 0.5 0.2 0.2\n")
    first = read_labels(tmp_path).sha256
    assert read_labels(tmp_path).sha256 == first
    write(tmp_path, "a_1.txt", "0 0.5 0.5 0.2 0.3\n")
    assert read_labels(tmp_path).sha256 != first


def test_classes_go_by_name_whatever_case_and_blanks() -> None:
    classes = ClassMap(("Traffic_Light", "car ", "ox"), ("car", "traffic light"))
    assert classes.to_network == [1, 0, -1]
    assert classes.unmapped == ["ox"]
    two = np.array([[0.0, 0.0, 1.0, 1.0]] * 3)
    none = np.zeros(3, np.bool_)
    objects = Objects(two, np.array([2, 0, 1]), none, none, np.array([1.0, 2.0, 3.0]))
    truth = classes.truth(objects, (1.0, 1.0))
    assert truth.class_id.tolist() == [1, 0]
    assert truth.area.tolist() == [2.0, 3.0]


def test_results_are_written_in_cocos_form() -> None:
    found = boxed([[1, 2, 4, 8]], [0.5], [1])
    assert results_of(50, found, [7, 3]) == [
        {"image_id": 50, "category_id": 3, "bbox": [1, 2, 3, 6], "score": 0.5}
    ]
