"""Small files of every public format, and records, from which the golden outputs are made."""

import gzip
import json
from pathlib import Path

from winnow.records import Context, Passage, Question

FILES = {
    "corpus.jsonl": (
        '{"_id": "d1", "title": "Paris", "text": "Paris is a  city."}\n'
        '{"_id": "d2", "title": "", "text": "Rivers flow."}\n'
    ),
    "psgs.tsv": 'id\ttext\ttitle\n1\t"The ""Seine"" flows."\tSeine\n2\tBerlin is big.\tBerlin\n',
    "extracts/AA/wiki_00": (
        '{"id": "7", "title": "Seine", "text": "one two three four five"}\n'
        '{"id": 8, "title": "Empty", "text": ""}\n'
    ),
    "texts/a.txt": "one two three\nfour five six seven\n",
    "summaries.json": (
        '{"Paris": {"title": "Paris", "extract": "A city\\n in France."}, "Berlin": {"extract": "A '
        'city."}}'
    ),
    "queries.jsonl": '{"_id": "q1", "text": "which city"}\n{"_id": "q2", "text": "unjudged"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n",
    "biencoder.json": json.dumps(
        [
            {
                "question": "who?",
                "answers": ["A", "B"],
                "positive_ctxs": [{"title": "T", "text": "A.", "passage_id": "9"}],
            },
            {"question": "none?", "answers": ["C"], "positive_ctxs": []},
        ]
    ),
    "questions.tsv": "who is it?\t['A', \"B's\"]\nwhere?\t\"['Paris']\"\n",
    "own.jsonl": (
        '{"id": "a", "question": "who?", "answers": [" A ", "B"], "text": "x y", "title": "T"}\n'
        '{"id": 2, "question": "where?", "answers": 7, "text": "z", "title": null}\n'
    ),
    "nq.jsonl": (
        '{"question": "who?", "answer": [" A ", "B", "A"]}\n{"question": "where?", "answer": '
        '["C"]}\n'
    ),
    "arc.jsonl": (
        '{"id": "1", "question": "what?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, '
        '"answerKey": "2"}\n'
    ),
    "pubhealth.jsonl": (
        '{"claim_id": 3, "claim": "it is", "label": "REFUTES"}\n{"claim": "so", "label": "true"}\n'
    ),
    "run.trec": "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1.5 tag\nq 2\tQ0\td 1\t1\t1\ttag\n",
    "hotpot.json": json.dumps(
        [
            {
                "_id": "h",
                "question": "who?",
                "answer": "A",
                "type": "bridge",
                "supporting_facts": [["T", 0], ["missing", 1]],
                "context": [["T", ["A.", " B."]], ["U", ["C."]]],
            }
        ]
    ),
    "musique.jsonl": (
        '{"id": "2hop__1", "question": "who?", "answer": "A", "answer_aliases": ["B"], '
        '"answerable": "true", "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "A.", '
        '"is_supporting": 1}]}\n'
    ),
    "crag.txt": "who? [SEP] T // A.\nwho? [SEP] U // B.\nwhere? [SEP] C.\n",
    "hub.csv": "key,question,answer\n007,who?,\"['A', 'B']\"\n8,where?,NA\n",
    "hub.json": (
        '{"key": 7, "question": "who?", "answer": ["A"]}\n{"key": 8.0, "question": "where?", '
        '"answer": ["1990"]}\n'
    ),
    "chinese.txt": "東京は日本の首都です。FIFA 2020年 大会\n",
    "popqa.tsv": (
        'id\tprop\tquestion\tpossible_answers\ts_pop\n5\tcapital\twhat?\t["A", "B"]\t12\n'
    ),
    "red/general.yaml": "AUTHOR: me\nwho?:\n- 007\n- No\nwhere?:\n- here\n",
    "squad.json": json.dumps(
        {
            "data": [
                {
                    "title": "T",
                    "paragraphs": [
                        {
                            "qas": [
                                {
                                    "id": "s1",
                                    "question": "who?",
                                    "answers": [{"text": "A"}, {"text": "A"}],
                                },
                                {
                                    "id": "s2",
                                    "question": "none?",
                                    "answers": [],
                                    "is_impossible": True,
                                },
                            ]
                        }
                    ],
                }
            ]
        }
    ),
    "trivia.json": json.dumps(
        {
            "Data": [
                {
                    "QuestionId": "t1",
                    "Question": "who?",
                    "Answer": {"Value": "A", "Aliases": ["B"]},
                }
            ]
        }
    ),
    "fid/test.json": json.dumps(
        [
            {
                "question": "who?",
                "answers": ["A", "B"],
                "target": "B",
                "ctxs": [{"id": "1", "title": "T", "text": "A.", "score": 2.5}, {"text": "B."}],
            }
        ]
    ),
    "hub.jsonl": (
        '{"id": 1, "title": "T", "text": "x", "question": "q?", "answer": {"aliases": ["a", '
        '"b"]}}\n'
    ),
}


def write_files(folder: Path) -> Path:
    """Write every file, one of them a second time as gzip."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "nq.jsonl.gz").write_bytes(gzip.compress(FILES["nq.jsonl"].encode()))
    return folder


PASSAGES = [
    Passage("p1", "Paris", "Paris is the capital of France."),
    Passage("p2", "Berlin", "Berlin is the capital of Germany."),
    Passage("p3", "Seine", "The Seine flows through Paris."),
    Passage("p4", "Rivers", "Rivers flow into the sea."),
    Passage("p5", "Lyon", "Lyon is a city in France."),
    Passage("p6", "Dogs", "Dogs bark at cats."),
]
QUESTIONS = [
    Question("q1", "What is the capital of France?", ("Paris", "City of Paris"), split="train"),
    Question("q2", "Which river flows through Paris?", ("Seine",), split="train"),
    Question(
        "q3", "Where do rivers flow?", ("sea", "the sea"), ("p4",), "train", meta='{"list": "x"}'
    ),
    Question("q4", "What barks?", ("Dogs",), ("p6", "p1"), "train"),
    Question("q5", "What is 1 + 1?", ("2",), split="train", meta='{"list": "y"}'),
]


def contexts(question: Question) -> tuple[Context, ...]:
    """Five ranked contexts of a question and one that was not retrieved, with scores, log-odds and
    gold marks.
    """
    shift = int(question.question_id[1:])
    order = [PASSAGES[(n + shift) % len(PASSAGES)] for n in range(len(PASSAGES))]
    return tuple(
        Context(
            passage,
            rank if rank < 6 else 0,
            10.0 / rank,
            any(answer in passage.text for answer in question.answers),
            passage.passage_id in question.gold_passage_ids
            or (not question.gold_passage_ids and rank == 3),
            (-1.0) ** rank * rank,
        )
        for rank, passage in enumerate(order, start=1)
    )
