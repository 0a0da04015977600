"""Names that columns of texts and labels have in public data sets."""

LABEL_NAMES = (
    *(
        "label",
        "labels",
        "gold_label",
        "class",
        "category",
        "target",
        "queue",
        "intent",
        "topic",
        "sentiment",
        "emotion",
    ),
    *("is_duplicate", "quality", "stance", "polarity", "rating", "stars", "score", "similarity", "y", "tag"),
)
TEXT_NAMES = (
    *(
        "text",
        "sentence",
        "body",
        "content",
        "message",
        "review",
        "comment",
        "tweet",
        "document",
        "description",
    ),
    *("utterance", "question", "query", "title", "subject"),
)
PAIRS = (
    *(
        ("sentence1", "sentence2"),
        ("sentence_1", "sentence_2"),
        ("sentence_a", "sentence_b"),
        ("text1", "text2"),
        ("text_1", "text_2"),
    ),
    *(
        ("text_a", "text_b"),
        ("question1", "question2"),
        ("#1 string", "#2 string"),
        ("premise", "hypothesis"),
        ("question", "answer"),
    ),
    *(
        ("question", "sentence"),
        ("query", "document"),
        ("query", "passage"),
        ("subject", "body"),
        ("title", "body"),
        ("title", "text"),
    ),
    *(("title", "content"), ("title", "description"), ("headline", "body")),
)
