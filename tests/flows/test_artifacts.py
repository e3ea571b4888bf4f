"""Keys of artifacts: what changes a result changes them, what only changes the speed does not."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from flows.project.artifacts import Artifact, Project
from flows.project.cells import resolve_cell_artifact, resolve_closed_book_artifact
from flows.project.models import resolve_joint_models, resolve_reader_path, resolve_trained_reader
from flows.project.rankings import resolve_relevance
from flows.project.searched import list_indexed_retrievers, list_retrievers
from flows.settings.composition import compose_config
from flows.settings.door import compose, open_seeds
from flows.settings.overrides import complete_overrides
from flows.stages.registry import list_stages
from winnow.artifacts.provenance import write_manifest
from winnow.errors import ConfigError, MissingArtifactError

Name = Callable[[Project], Artifact]


def key(name: Name, *words: str) -> str:
    return name(Project(compose(["sweep.closed_book_filter=false", *words]))).key


def corpus(project: Project) -> Artifact:
    return project.corpus


def questions(project: Project) -> Artifact:
    return project.questions


def retrieval(project: Project) -> Artifact:
    return project.rankings


def trained_reader(project: Project) -> Artifact:
    return resolve_trained_reader(project, project.settings.reader, project.settings.prompt)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (corpus, "corpus.asset.sha256=" + "0" * 64),
        (questions, "dataset.split.seed=2"),
        (questions, "answerable.depth=5"),
        (questions, "answerable.required=[]"),
        (retrieval, "depth=50"),
        (retrieval, "retriever.engine.k1=1.2"),
        (resolve_relevance, "encoder.asset.sha256=" + "0" * 64),
        (resolve_relevance, "encoder.model.pooling=cls"),
        (trained_reader, "training.settings.batch_size=8"),
        (trained_reader, "training.mix.unknown=5"),
        (trained_reader, "prompt.system=Hello"),
        (resolve_cell_artifact, "k=3"),
        (resolve_cell_artifact, "placement=gold_first"),
        (resolve_cell_artifact, "decoding.max_new_tokens=8"),
        (resolve_cell_artifact, "rank_by=estimator"),
        (resolve_cell_artifact, "weighting.by=retriever"),
        (resolve_cell_artifact, "+strategy.engines=[reader,estimator]"),
        (resolve_closed_book_artifact, "closed_book.limit=3"),
    ],
)
def test_what_changes_a_result_changes_the_key(name: Name, word: str) -> None:
    """Also where it is an input of an input."""
    assert key(name) != key(name, word)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (resolve_cell_artifact, "reader.engine.dtype"),
        (trained_reader, "training.settings.precision"),
    ],
)
def test_a_key_holds_the_precision_that_auto_stands_for_on_this_machine(
    name: Name, setting: str
) -> None:
    """Which of the two it is depends on the processor; the other is another result."""
    single, half = (key(name, f"{setting}={dtype}") for dtype in ("float32", "bfloat16"))
    assert single != half
    assert key(name) in {single, half}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (resolve_cell_artifact, "reader.engine.device=cpu"),
        (resolve_cell_artifact, "reader.engine.batch_size=2"),
        (resolve_cell_artifact, "estimator.engine.scale=3"),
        (resolve_cell_artifact, "sweep.name=other"),
        (resolve_cell_artifact, "metric=[em]"),
        (resolve_cell_artifact, "reader@judge=openai"),
        (trained_reader, "training.settings.save_steps=7"),
        (trained_reader, "training.evaluation.limit=3"),
        (trained_reader, "retriever=dense"),
        (resolve_relevance, "+encoder.model.batch_tokens=100"),
    ],
)
def test_what_only_changes_the_speed_or_something_else_does_not(name: Name, word: str) -> None:
    """So that another machine finds the same artifacts, and retrievers are compared with one
    reader.
    """
    assert key(name) == key(name, word)


def test_settings_count_whatever_they_are_called() -> None:
    """Only the class that has a setting can exempt it: a strategy's `budget` or `size` is part of
    the key.
    """
    for name in ("budget", "size", "state", "capacity"):
        plan = {"_target_": "winnow.strategies.concatenation.Concatenation", name: 1}
        identify = Project(compose([])).pinned.identify_settings
        assert identify(plan) != identify({**plan, name: 50})


def test_another_model_than_the_asset_is_another_key(tmp_path: Path) -> None:
    """The asset's hash stands for files in its folder alone."""
    (tmp_path / "weights.gguf").write_text("other")
    for name, setting in (
        (resolve_cell_artifact, "reader.base"),
        (retrieval, "encoder.model.path"),
    ):
        words = ["retriever=dense", "reader=smollm2"]
        assert key(name, *words) != key(name, *words, f"{setting}={tmp_path / 'weights.gguf'}")


def test_an_input_file_besides_the_asset_is_known_by_its_content(tmp_path: Path) -> None:
    """A path that leaves the asset's folder is not covered by its hash."""
    path = tmp_path / "mine.json"
    path.write_text("{}")
    before = key(corpus, f"corpus.parser.path={path}")
    path.write_text('{"a": 1}')
    assert key(corpus, f"corpus.parser.path={path}") != before


def test_names_in_paths_are_slugs() -> None:
    """A reader that is named after its path writes inside the data folder."""
    artifact = resolve_closed_book_artifact(
        Project(
            compose(
                ["reader=folder", "reader.name=/models/a b", f"reader.base=owner/name@{'0' * 40}"]
            )
        )
    )
    assert artifact.folder.parent == Path("data/closed_book")
    assert artifact.folder.name.startswith("models-a-b-")


def test_a_reader_trained_on_demonstrations_knows_whose_passages_they_show() -> None:
    """Another retriever draws others; without demonstrations it changes nothing."""
    shots = ["prompt=re_rag"]
    assert key(trained_reader, *shots) != key(trained_reader, *shots, "retriever=dense")
    assert key(resolve_cell_artifact, *shots) != key(
        resolve_cell_artifact, *shots, "prompt.shots.count=2"
    )


def test_an_asset_without_hash_is_known_by_what_it_gave(tmp_path: Path) -> None:
    """A file: or hf: asset needs no sha256; its content decides."""
    asset = f"+corpus.asset={{address: 'file:{tmp_path}', path: '{tmp_path}'}}"
    words = ["corpus=plain_text", f"corpus.parser.path={tmp_path}", asset]
    (tmp_path / "a.txt").write_text("one")
    before = key(corpus, *words)
    (tmp_path / "a.txt").write_text("other")
    assert key(corpus, *words) != before


def test_a_trained_estimator_is_its_teachers_and_serves_any_reader() -> None:
    """Another reader, prompt or decoding of the sweep, or another precision or runtime of scoring,
    trains nothing again.
    """
    words = ["estimator=cross_encoder"]
    scoring = ("estimator.engine.dtype=float32", "estimator.engine.runtime=torch")
    trained = key(resolve_joint_models, *words)
    for more in ("reader=openai", "prompt=t5", "decoding.max_new_tokens=4", *scoring):
        assert key(resolve_joint_models, *words, more) == trained
    for more in (
        "joint.teacher.decoding.max_new_tokens=4",
        "joint.teacher.prompt.system=Hello",
        "reader@joint.teacher.reader=smollm2",
        "joint.method.objective=paper",
        "estimator.engine.max_length=100",
        "training.mix.unknown=5",
    ):
        assert key(resolve_joint_models, *words, more) != trained
    assert key(resolve_relevance, *words) == key(resolve_relevance, *words, "reader=openai")
    by = {
        name: key(resolve_relevance, *words, f"estimator.engine.runtime={name}")
        for name in ("auto", "torch", "openvino")
    }
    assert by["auto"] == by["openvino"] != by["torch"]


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (resolve_joint_models, [], "estimator=bi_encoder has nothing to train"),
        (resolve_relevance, ["estimator=cross_encoder", "joint=fid"], "joint=fid trains none"),
        (resolve_cell_artifact, ["estimator=t5", "reader=joint"], "joint=frozen makes none"),
        (
            resolve_cell_artifact,
            ["reader=joint", "joint=rag", "joint.generator.max_length=512"],
            "reader.engine.max_length=256, but the generator is trained on pairs of",
        ),
        (
            resolve_cell_artifact,
            ["+strategy.engines=[reader,critic]"],
            "there is no role 'critic'",
        ),
        (corpus, ["corpus.parser._target_=winnow.nowhere.Nothing"], "there is no such class"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name: Name, words: list[str], message: str) -> None:
    """With what to choose instead."""
    with pytest.raises(ConfigError, match=message):
        key(name, *words)


def test_a_generator_may_come_from_another_training_than_the_estimator() -> None:
    """Its key is that of the training that made it; the cell's changes with either."""
    words = [
        "estimator=t5",
        "joint=re_rag",
        "reader=joint",
        "prompt=t5",
        "rank_by=estimator",
        "estimator.base=a",
        "joint.generator.path=b",
    ]
    both = [*words, "joint@generator=rag", "generator.generator.path=c"]

    def generator(project: Project) -> Artifact:
        return resolve_joint_models(project, project.settings.generator)

    assert key(generator, *both) == key(resolve_joint_models, "joint=rag", "joint.generator.path=c")
    assert key(generator, *both, "joint.settings.seed=7") == key(generator, *both)
    changed = {
        key(resolve_cell_artifact, *words),
        key(resolve_cell_artifact, *both),
        key(resolve_cell_artifact, *both, "joint.settings.seed=7"),
        key(resolve_cell_artifact, *both, "generator.settings.seed=7"),
    }
    assert len(changed) == 4
    with pytest.raises(
        ConfigError,
        match=r"joint@generator=frozen makes none\. Choose joint@generator=re_rag, rag or fid",
    ):
        key(resolve_cell_artifact, *words, "joint@generator=frozen")


def test_seeds_are_the_seeds_of_every_training() -> None:
    """Each configuration has the keys of its seed given by hand; equal seeds and other values are
    refused.
    """
    cfg = compose_config(["seeds=[1,2]", "joint@generator=rag"])
    first, second = open_seeds(cfg)
    assert [one.seeds for one in (first, second)] == [[1], [2]]
    by_hand = compose(["training.seed=2", "training.settings.seed=2", "joint.settings.seed=2"])
    assert (
        trained_reader(Project(second)).key
        == trained_reader(Project(by_hand)).key
        != trained_reader(Project(first)).key
    )
    assert second.generator is not None
    assert second.generator.settings["seed"] == 2
    assert [one.training.seed for one in open_seeds(compose_config([]))] == [13]
    for words, message in (
        ("[1,1]", "names a seed twice"),
        ("3", "expected a list"),
        ("[one]", "expected a list"),
        ("[]", "or null"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_seeds(compose_config([f"seeds={words}"]))


def test_the_rag_baseline_decodes_as_equation_2() -> None:
    """Every answer is scored under every context, with the softmax of the retriever's scores as
    weights.
    """
    cfg = compose(["experiment=re_rag/rag"])
    assert (cfg.strategy.plan["scoring"], cfg.weighting["by"], cfg.rank_by, cfg.joint.name) == (
        "exact",
        "retriever",
        "retriever",
        "rag",
    )


def test_dvc_runs_again_what_rests_on_a_training_if_the_seeds_change() -> None:
    """Every stage that runs once a seed lists them."""
    described = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    trained = [
        stage.name for stage in list_stages() if stage.seeds == "each" and stage.name in described
    ]
    assert sorted(trained) == ["calls", "closed_book", "report", "score", "sweep", "train_reader"]
    assert all("seeds" in described[name]["params"] for name in trained)


def test_mixtures_of_the_same_maps_share_an_index() -> None:
    """What only a search reads is part of the rankings' key, and of no index; an encoder is part of
    both.
    """

    def keys(*words: str) -> tuple[str, str]:
        project = Project(compose([*words, "retriever=mixture"]))
        return project.resolve_index().key, project.rankings.key

    index, rankings = keys()
    for word in (
        "retriever.engine.relevant=2", "retriever.engine.seed=1",
        "retriever.engine.maps.neighbors=5", "retriever.engine.maps.exclude_answers=none",
    ):  # fmt: skip
        assert keys(word)[0] == index
        assert keys(word)[1] != rankings
    for word in (
        "encoder.model.max_length=128",
        "retriever.engine.maps.retriever.index_factory=HNSW32",
    ):
        assert keys(word)[0] != index
        assert keys(word)[1] != rankings
    project = Project(compose(["retriever=mixture", "training=cite", "reader=smollm2_tuned"]))
    assert len(list_retrievers(project)) == 2
    assert len(list_indexed_retrievers(project)) == 3
    assert len({project.resolve_index(node).key for node in list_indexed_retrievers(project)}) == 2


def test_a_tuned_reader_may_be_asked_with_another_prompt(tmp_path: Path) -> None:
    """It keeps its weights; the answers are others. Without the setting, the message says what else
    there is.
    """
    trained_on = "prompt@reader.trained_on=post_fusion"
    assert (
        key(trained_reader, "prompt=plain", trained_on)
        == key(trained_reader)
        != key(trained_reader, "prompt=plain")
    )
    assert key(resolve_cell_artifact, "prompt=plain", trained_on) not in (
        key(resolve_cell_artifact),
        key(resolve_cell_artifact, "prompt=plain"),
    )
    project = Project(compose([f"paths.models={tmp_path}", "prompt=plain"]))
    reader, prompt = project.settings.reader, project.settings.prompt
    other = trained_reader(Project(compose([f"paths.models={tmp_path}"])))
    with pytest.raises(MissingArtifactError, match=r"Run `python -m flows\.train_reader`"):
        resolve_reader_path(project, reader, prompt)
    other.folder.mkdir(parents=True)
    write_manifest(other.folder, key=other.key, settings={}, rows=0)
    with pytest.raises(
        MissingArtifactError,
        match=r"It was trained on another one: prompt@reader\.trained_on=post_fusion asks",
    ):
        resolve_reader_path(project, reader, prompt)


def test_the_prompt_of_a_training_needs_one() -> None:
    """A reader as it is, no training, and a grid over readers leave it without effect."""
    trained_on = "prompt@reader.trained_on=plain"
    with pytest.raises(
        ConfigError, match="expected also tuned=true, without which trained_on has no effect"
    ):
        compose(["reader=smollm2", trained_on])
    with pytest.raises(ConfigError, match="training=none trains no reader"):
        key(resolve_cell_artifact, "training=none", trained_on)
    with pytest.raises(ConfigError, match="the grid is over reader"):
        complete_overrides(["grid.reader=[smollm2,smollm2_tuned]", trained_on])
