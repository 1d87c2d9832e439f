"""Entities by the services of simulation_interfaces, against its definitions."""

import math
from functools import partial

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3

from quadsim.ros.messages.markers import obstacle_markers
from quadsim.world.scene.obstacle_markers import MarkerReader
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Sphere

UNSUPPORTED, OK, NOT_FOUND, FAILED = 0, 1, 2, 4
INVALID_STATE_POSE = 101
NOT_UNIQUE, NAME_INVALID, FORMAT, NO_RESOURCE, NAMESPACE, PARSE, MISSING, ASSETS, POSE = range(
    101, 110
)
ROBOT, DYNAMIC, STATIC = 1, 4, 5
NORTH = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # w, x, y, z


def sdf(geometry="<box><size>1 2 3</size></box>", static=True, name="it", pose="0 0 0 0 0 0"):
    return (
        f'<sdf version="1.9"><model name="{name}"><static>{str(static).lower()}</static>'
        f'<pose>7 7 7 0 0 0</pose><link name="link"><collision name="c"><pose>{pose}</pose>'
        f"<geometry>{geometry}</geometry></collision></link></model></sdf>"
    )


@pytest.fixture
def spawn(call):
    """Spawns something, and gives result and name."""

    def made(name="post", text=None, at=(5.0, 0.0, 1.0), **fields):
        fields.setdefault("entity_resource__resource_string", sdf() if text is None else text)
        fields.setdefault("initial_pose__pose__position", Point(**dict(zip("xyz", at))))  # noqa: B905
        answer = call("spawn_entity", name=name, **fields)
        return answer.result.result, answer.entity_name

    return made


def test_entities_are_the_vehicles_with_their_true_motion(call):
    assert call("get_entities").entities == ["quad1", "quad2"]
    assert call("get_entities", filters__filter="2$").entities == ["quad2"]
    answer = call("get_entity_state", entity="quad2")
    state = answer.state
    assert (answer.result.result, state.header.frame_id) == (OK, "map")
    assert (state.header.stamp.sec, state.header.stamp.nanosec) == (3, 1)
    assert (state.pose.position.x, state.pose.orientation.z) == pytest.approx((1, math.sqrt(0.5)))
    assert state.twist.linear.z == 6.0
    angular = state.twist.angular
    assert (angular.x, angular.y, angular.z) == pytest.approx((0.0, 0.1, 0.3))
    missing = call("get_entity_state", entity="quad3").result
    assert (missing.result, missing.error_message) == (NOT_FOUND, "'quad3'; known: quad1, quad2")
    both = call("get_entities_states")
    assert [each.pose.position.x for each in both.states] == [0.0, 1.0]


@pytest.mark.parametrize(
    "text", ["(", "(a+)+b", "(a|a)*b", "a*a*a*a*b", "x" * 1000, "(a|a)" * 40, "a{99999999999}"]
)
def test_an_expression_that_is_none_or_takes_hours_is_refused(call, text):
    assert call("get_entities", filters__filter=text).result.result == FAILED


@pytest.mark.parametrize("text", ["(quad|tree)[0-9]+", "^quad1$|^quad2$", "[*+{|]*quad", r"quad\d"])
def test_expressions_that_people_write_are_not(call, text):
    assert call("get_entities", filters__filter=text).entities == ["quad1", "quad2"]


@pytest.mark.parametrize(
    ("geometry", "shape"),
    [
        ("<box><size>1 2 3</size></box>", Box((1.0, 2.0, 3.0))),
        ("<sphere><radius>0.5</radius></sphere>", Sphere(0.5)),
        ("<cylinder><radius>0.5</radius><length>2</length></cylinder>", Cylinder(0.5, 2.0)),
    ],
)
def test_what_is_spawned_is_in_the_physics_and_told(call, spawn, simulation, geometry, shape):
    simulation.now_ns = 2_500_000_000
    turn = Quaternion(w=NORTH[0], x=NORTH[1], y=NORTH[2], z=NORTH[3])
    text = sdf(geometry, pose="1 0 0 0 0 0")
    assert spawn(text=text, initial_pose__pose__orientation=turn) == (OK, "post")
    (seen,) = simulation.seen
    assert seen.shape == shape
    assert seen.pose_W.p_A == pytest.approx((5.0, 1.0, 1.0))  # the model's own pose gives way
    assert seen.pose_W.q_AB == pytest.approx(NORTH)
    (told,) = simulation.published
    (read,) = MarkerReader().read(told)
    assert (read.shape, read.pose_W) == (seen.shape, seen.pose_W)
    assert told.markers[1].header.stamp.nanosec == 500_000_000
    assert call("get_entities").entities == ["quad1", "quad2", "post"]
    assert call("get_entity_state", entity="post").state.pose.position.x == 5.0
    assert simulation.told == [(0, "spawned", "post")]
    assert call("delete_entity", entity="post").result.result == OK
    assert simulation.seen == []
    assert MarkerReader().read(simulation.published[-1]) == []
    assert call("delete_entity", entity="post").result.result == NOT_FOUND
    assert call("delete_entity", entity="quad1").result.result == FAILED


def test_models_by_uri_and_their_meshes(call, spawn, simulation):
    uris = [one.entity_resource.uri for one in call("get_spawnables").spawnables]
    assert uris == ["model://rock", "model://tall_tree", "model://tree"]
    unknown = call("get_spawnables", sources=["https://fuel"]).result
    assert (unknown.result, "https://fuel" in unknown.error_message) == (OK, True)
    assert spawn("", entity_resource__uri="model://rock") == (OK, "rock")
    (rock,) = simulation.seen
    assert isinstance(rock.shape, Mesh)
    (read,) = MarkerReader().read(simulation.published[-1])
    assert read.shape.closed == rock.shape.closed
    assert read.shape.triangles_m == pytest.approx(rock.shape.triangles_m)


def test_a_file_is_spawned_with_what_lies_beside_it(spawn, tmp_path):
    path = tmp_path / "a post.sdf"
    path.write_text(sdf())
    assert spawn(entity_resource__uri=path.as_uri()) == (OK, "post")
    mesh = "<mesh><uri>rock.stl</uri></mesh>"
    path.write_text(sdf(mesh))
    assert spawn("b", entity_resource__uri=path.as_uri())[0] == MISSING
    (tmp_path / "rock.stl").write_text("nothing")
    assert spawn("b", entity_resource__uri=path.as_uri())[0] == PARSE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "quad1"}, NOT_UNIQUE),
        ({"name": "a b"}, NAME_INVALID),
        ({"name": "x" * 1_000_000}, NAME_INVALID),
        ({"name": "", "text": sdf(name="")}, NAME_INVALID),
        ({"text": "<robot name='r'/>"}, FORMAT),
        ({"entity_resource__uri": "https://fuel/tree"}, FORMAT),
        ({"entity_resource__uri": "model://../../x"}, FORMAT),
        ({"entity_resource__uri": "http://[x"}, FORMAT),
        ({"entity_resource__uri": "file:///a%00b.sdf"}, FORMAT),
        ({"entity_resource__uri": "file:///" + "a" * 5000 + ".sdf"}, FORMAT),
        ({"entity_resource__uri": "file:///" + "a" * 3000 + ".sdf"}, MISSING),
        ({"entity_resource__uri": "model://nowhere"}, MISSING),
        ({"text": " "}, NO_RESOURCE),
        ({"entity_namespace": "1 2"}, NAMESPACE),
        ({"text": "<sdf"}, PARSE),
        ({"text": "<sdf version='1.9'/>"}, PARSE),
        ({"text": "<sdf>" + "a" * 10_000_000}, PARSE),
        ({"text": "<!DOCTYPE a [<!ENTITY b 'c'>]><sdf version='1.9'/>"}, PARSE),
        ({"text": sdf("<box><size>1 nan 1</size></box>")}, PARSE),
        ({"text": sdf("<box><size>1 -1 1</size></box>")}, PARSE),
        ({"text": sdf("<box><size>1 1e300 1</size></box>")}, PARSE),
        ({"text": sdf("<sphere><radius>1e308</radius></sphere>")}, PARSE),
        ({"text": sdf("<torus/>")}, PARSE),
        ({"text": sdf("<empty/>")}, PARSE),
        ({"text": sdf("<mesh><uri>model://rock/meshes/no.stl</uri></mesh>")}, MISSING),
        ({"text": sdf("<mesh><uri>/etc/passwd</uri></mesh>")}, PARSE),
        ({"text": sdf("<plane/>")}, ASSETS),
        ({"at": (math.nan, 0.0, 0.0)}, POSE),
        ({"at": (1e9, 0.0, 0.0)}, POSE),
        ({"initial_pose__pose__orientation": Quaternion(w=0.0)}, POSE),
        ({"initial_pose__pose__orientation": Quaternion(w=math.inf)}, POSE),
        ({"initial_pose__header__frame_id": "base_link"}, POSE),
    ],
)
def test_a_spawn_that_is_refused_says_why_and_changes_nothing(spawn, simulation, fields, code):
    assert spawn(**fields) == (code, "")
    assert simulation.published == simulation.seen == simulation.told == []


def test_a_name_that_is_taken_may_become_another(call, spawn):
    names = [spawn(allow_renaming=True)[1] for _ in range(3)]
    assert names == ["post", "post_1", "post_2"]
    assert spawn("", allow_renaming=True) == (OK, "it")
    assert spawn("", sdf(name=""), allow_renaming=True) == (OK, "entity")
    assert spawn(entity_namespace="/yard") == (OK, "yard/post")
    assert call("get_entity_state", entity="yard/post").result.result == OK


def test_several_are_spawned_each_with_its_result(call):
    def request(name, text):
        return call.message("SpawnEntity", name=name, entity_resource__resource_string=text)

    answer = call("spawn_entities", spawn_requests=[request("a", sdf()), request("b", "<sdf")])
    assert answer.result.result == 150
    assert [each.result.result for each in answer.results] == [OK, PARSE]
    assert [each.entity_name for each in answer.results] == ["a", ""]
    answer = call("spawn_entities", spawn_requests=[request("b", sdf())])
    assert answer.result.result == OK


def test_too_many_shapes_are_refused(call, spawn, monkeypatch):
    monkeypatch.setattr("quadsim.ros.simulation.spawning.MOST_SHAPES", 2)
    assert [spawn(name)[0] for name in "abc"] == [OK, OK, FAILED]


def test_what_is_set_goes_on_from_there(call, spawn, simulation):
    spawn(text=sdf(static=False))
    set_state = {"entity": "post", "set_pose": True, "set_twist": True}
    fields = {
        "state__pose__position": Point(x=1.0, y=2.0, z=3.0),
        "state__twist__linear": Vector3(x=2.0),
        "state__twist__angular": Vector3(z=math.pi),
    }
    assert call("set_entity_state", **set_state, **fields).result.result == OK
    simulation.paused = True
    call("step_simulation", steps=250)  # 0.5 s
    state = call("get_entity_state", entity="post").state
    assert (state.pose.position.x, state.pose.position.y) == pytest.approx((2.0, 2.0))
    assert state.pose.orientation.z == pytest.approx(math.sqrt(0.5))
    assert (state.twist.linear.x, state.twist.angular.z) == pytest.approx((2.0, math.pi))
    # the physics knows it as of the step's beginning, others every 20 ms
    assert simulation.seen[0].pose_W.p_A[0] == pytest.approx(2.0 - 0.002 * 2.0)
    assert len(simulation.published) == 2 + 25
    # a twist alone: it goes on from where it is
    call("set_entity_state", entity="post", set_twist=True)
    call("step_simulation", steps=250)
    assert call("get_entity_state", entity="post").state.pose.position.x == pytest.approx(2.0)


def test_a_reset_puts_back_what_was_moved_or_deletes_it(call, spawn, simulation):
    spawn(at=(5.0, 0.0, 1.0))
    moved = {"entity": "post", "set_pose": True, "state__pose__position": Point(x=9.0)}
    call("set_entity_state", **moved)
    assert simulation.seen[0].pose_W.p_A[0] == 9.0
    call("reset_simulation", scope=2)
    assert simulation.seen[0].pose_W.p_A == (5.0, 0.0, 1.0)
    simulation.refuses = "a file is wrong"
    call("reset_simulation", scope=255)
    assert call("get_entities").entities[2:] == ["post"]
    call("reset_simulation", scope=4)
    assert (simulation.seen, simulation.resets) == ([], 1)
    simulation.refuses = ""
    spawn()
    call("reset_simulation", scope=0)
    assert (simulation.seen, simulation.resets) == ([], 2)


def test_a_vehicle_is_put_where_it_is_asked(call, simulation):
    turn = Quaternion(w=NORTH[0], x=NORTH[1], y=NORTH[2], z=NORTH[3])
    answer = call(
        "set_entity_state", entity="quad1", set_pose=True, set_twist=True,
        state__pose__position=Point(x=1.0, z=4.0), state__pose__orientation=turn,
        state__twist__linear=Vector3(x=3.0), state__twist__angular=Vector3(x=0.5),
    )  # fmt: skip
    quad = simulation.quads["quad1"]
    assert answer.result.result == OK
    assert quad["p_W"].tolist() == [1.0, 0.0, 4.0]
    assert quad["v_W"].tolist() == [3.0, 0.0, 0.0]
    assert quad["w_B"] == pytest.approx([0.0, -0.5, 0.0])  # looks north: east is to its right
    simulation.where_nothing_can_be = "in a wall"
    answer = call("set_entity_state", entity="quad1", set_pose=True)
    assert (answer.result.result, answer.result.error_message) == (INVALID_STATE_POSE, "in a wall")


@pytest.mark.parametrize("entity", ["quad1", "post"])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"entity": "nobody"}, NOT_FOUND),
        ({"state__pose__position": Point(x=math.nan)}, INVALID_STATE_POSE),
        ({"state__pose__position": Point(x=1e9)}, INVALID_STATE_POSE),
        ({"state__pose__orientation": Quaternion(w=0.0)}, INVALID_STATE_POSE),
        ({"state__header__frame_id": "base_link"}, INVALID_STATE_POSE),
        ({"state__twist__linear": Vector3(x=math.inf)}, FAILED),
        ({"state__twist__linear": Vector3(x=1e4)}, FAILED),
        ({"state__twist__angular": Vector3(x=math.nan)}, FAILED),
    ],
)
def test_a_state_that_is_none_is_refused(call, spawn, simulation, entity, fields, code):
    spawn(text=sdf(static=False))
    before = simulation.seen, simulation.quads["quad1"].copy()
    fields = {"entity": entity, "set_pose": True, "set_twist": True, **fields}
    assert call("set_entity_state", **fields).result.result == code
    assert simulation.seen == before[0]
    assert simulation.quads["quad1"] == before[1]


def test_static_things_and_meshes_have_no_velocity(call, spawn):
    spawn("wall")
    spawn("rock", sdf("<mesh><uri>model://rock/meshes/rock.stl</uri></mesh>", static=False))
    for name, code in (("wall", FAILED), ("rock", UNSUPPORTED)):
        twist = {"set_twist": True, "state__twist__linear": Vector3(x=1.0)}
        assert call("set_entity_state", entity=name, **twist).result.result == code
        moved = {"set_pose": True, "set_twist": True, "state__pose__position": Point(x=3.0)}
        assert call("set_entity_state", entity=name, **moved).result.result == OK
    speeds_up = {"set_acceleration": True, "state__acceleration__linear": Vector3(x=1.0)}
    answer = call("set_entity_state", entity="wall", set_pose=True, **speeds_up)
    assert answer.result.result == FAILED


def test_infos_and_filters(call, spawn):
    spawn("wall")
    spawn("ball", sdf("<sphere><radius>0.5</radius></sphere>", static=False), at=(0.0, 9.0, 0.0))
    kinds = {name: call("get_entity_info", entity=name).info.category.category
             for name in ("quad1", "wall", "ball")}  # fmt: skip
    assert kinds == {"quad1": ROBOT, "wall": STATIC, "ball": DYNAMIC}

    def of(**fields):
        return call("get_entities", **{f"filters__{key}": value for key, value in fields.items()})

    def category(number):
        return call.message("EntityCategory", category=number)

    assert of(categories=[category(STATIC), category(DYNAMIC)]).entities == ["wall", "ball"]
    info = call.message("EntityInfo", category=category(ROBOT), tags=["a", "b"])
    assert call("set_entity_info", entity="ball", info=info).result.result == OK
    assert of(categories=[category(ROBOT)]).entities == ["quad1", "quad2", "ball"]
    assert of(tags__tags=["b", "c"]).entities == ["ball"]
    assert of(tags__tags=["b", "c"], tags__filter_mode=1).entities == []
    info = call.message("EntityInfo", description="x" * 100_000)
    assert call("set_entity_info", entity="ball", info=info).result.result == FAILED
    for takes_away in (partial(call, "delete_entity", entity="ball"),
                       partial(call, "reset_simulation", scope=4)):  # fmt: skip
        call("set_entity_info", entity="ball", info=call.message("EntityInfo", tags=["a"]))
        assert takes_away().result.result == OK
        spawn("ball")
        assert call("get_entity_info", entity="ball").info.tags == []


def test_bounds(call, spawn):
    turn = Quaternion(w=NORTH[0], x=NORTH[1], y=NORTH[2], z=NORTH[3])
    spawn("wall", sdf(pose="0 0 1.5 0 0 0"), initial_pose__pose__orientation=turn)
    bounds = call("get_entity_bounds", entity="wall").bounds
    corners = [(point.x, point.y, point.z) for point in bounds.points]
    assert bounds.type == bounds.TYPE_BOX
    expected = np.array([(0.5, 1.0, 3.0), (-0.5, -1.0, 0.0)])
    assert np.array(corners) == pytest.approx(expected, abs=1e-6)

    def within(kind, *points):
        points = [Vector3(**dict(zip("xyz", point, strict=True))) for point in points]
        fields = {"filters__bounds__type": kind, "filters__bounds__points": points}
        answer = call("get_entities", **fields)
        return answer.entities if answer.result.result == OK else answer.result.result

    # it is 1 m long and 2 m wide, looks north, and stands at (5, 0, 1)
    assert within(bounds.TYPE_SPHERE, (7.0, 0.0, 2.0), (1.01, 0.0, 0.0)) == ["wall"]
    assert within(bounds.TYPE_SPHERE, (7.0, 0.0, 2.0), (0.99, 0.0, 0.0)) == []
    assert within(bounds.TYPE_SPHERE, (1.0, 2.0, 3.0), (0.01, 0.0, 0.0)) == ["quad2"]
    assert within(bounds.TYPE_BOX, (9.0, 9.0, 9.0), (5.9, 0.4, 3.9)) == ["wall"]
    assert within(bounds.TYPE_BOX, (9.0, 9.0, 9.0), (5.9, 0.6, 3.9)) == []
    assert within(bounds.TYPE_CONVEX_HULL, (0.0, 0.0, 0.0)) == UNSUPPORTED
    assert within(bounds.TYPE_SPHERE, (0.0, 0.0, 0.0)) == FAILED
    assert within(bounds.TYPE_SPHERE, (math.nan, 0.0, 0.0), (1.0, 0.0, 0.0)) == FAILED


def test_worlds_and_places_in_one(call, simulation, tmp_path):
    world = call("get_current_world").world
    assert (world.name, world.world_resource.uri[-18:]) == ("forest", "/worlds/forest.sdf")
    worlds = call("get_available_worlds").worlds
    assert {"forest", "flat"} <= {one.name for one in worlds}
    assert call("get_available_worlds", filter__tags=["indoor"]).worlds == []
    assert call("get_named_poses").poses == []
    path = tmp_path / "yard.sdf"
    path.write_text(
        '<sdf version="1.9"><world name="yard"><frame name="gate">'
        "<pose degrees='true'>1 2 3 0 0 90</pose></frame></world></sdf>"
    )
    simulation.world_file = str(path)
    (gate,) = call("get_named_poses").poses
    assert (gate.name, gate.pose.position.y) == ("gate", 2.0)
    assert gate.pose.orientation.z == pytest.approx(math.sqrt(0.5))
    assert call("get_named_poses", tags__tags=["spawn"]).poses == []
    path.unlink()
    assert call("get_named_poses").result.result == FAILED


def test_markers_that_are_no_obstacles_are_refused():
    from quadsim.base.errors import InputError
    from quadsim.world.scene.obstacles import Obstacle

    good = obstacle_markers({"it": [Obstacle("it", Box((1.0, 1.0, 1.0)))]}, 0)
    far = Pose(position=Point(x=1e300), orientation=Quaternion(w=1.0))
    wrong = {"type": 0, "action": 2, "scale": Vector3(x=1.0), "pose": far}
    for field, value in [*wrong.items(), ("scale", Vector3(x=1e300, y=1.0, z=1.0))]:
        bad = obstacle_markers({"it": [Obstacle("it", Box((1.0, 1.0, 1.0)))]}, 0)
        setattr(bad.markers[1], field, value)
        with pytest.raises(InputError, match="it/0"):
            MarkerReader().read(bad)
    good.markers[1].header.frame_id = "odom"
    with pytest.raises(InputError, match="frame map"):
        MarkerReader().read(good)
