"""Phrases of the sample tickets. Each topic belongs to a queue; the clauses for broken and settled topics are the same for all.

This makes the task difficult: a bag of words has two topics, a broken and a settled clause, but not which clause is about which topic.
"""

TOPICS: dict[str, tuple[str, ...]] = {
    "account": (
        "my login",
        "the password reset",
        "my user name",
        "the e-mail address on my profile",
        "my customer profile",
        "the two-step sign-in",
        "my newsletter setting",
        "the access for my wife",
        "the verification code",
        "my old account",
    ),
    "billing": (
        "the invoice",
        "my last bill",
        "the card payment",
        "the direct debit",
        "the monthly charge",
        "the VAT number on the receipt",
        "the discount code",
        "the second instalment",
        "the payment reminder",
        "the amount you took",
    ),
    "delivery": (
        "the parcel",
        "the shipment",
        "the courier appointment",
        "the tracking page",
        "the delivery address",
        "the pick-up point",
        "the second box of the order",
        "the express shipping",
        "the customs form",
        "the drop-off at my neighbour's",
    ),
    "returns": (
        "the exchange",
        "the return label",
        "the refund for the jacket",
        "the size I took by mistake",
        "the item I sent back",
        "the return window",
        "the replacement",
        "the restocking deduction",
        "the collection of the broken chair",
        "the store credit for my return",
    ),
    "technical": (
        "the app",
        "the firmware update",
        "the remote control",
        "the pairing with my phone",
        "the touch screen",
        "the battery of the tablet",
        "the wireless connection",
        "the setup wizard",
        "the noise from the fan",
        "the speaker on the left",
    ),
}
"""Per queue, what a ticket can be about. Singular noun phrases, so that they fit every clause below."""

BROKEN: tuple[str, ...] = (
    "{x} is still a problem",
    "{x} is wrong",
    "{x} is a mess",
    "{x} needs your attention",
    "{x} went wrong again",
    "{x} makes no sense to me",
    "{x} is giving me a headache",
    "{x} remains broken",
)
"""Clauses that name what is wrong, and so decide the queue."""

SETTLED: tuple[str, ...] = (
    "{x} is fine now",
    "{x} is all right again",
    "{x} is settled",
    "{x} has been sorted out",
    "{x} gives me no more trouble",
    "{x} turned out well",
    "{x} works as agreed",
    "{x} was solved by your colleague",
)
"""Clauses that name what is not, or no longer, wrong."""

SETTLED_THEN_BROKEN: tuple[str, ...] = (
    "{s}, but {b}.",
    "{s}. However, {b}.",
    "{s}; {b}, though.",
    "{s}, and yet {b}.",
    "while {s}, {b}.",
)
BROKEN_THEN_SETTLED: tuple[str, ...] = (
    "{b}, but {s}.",
    "{b}, although {s}.",
    "{b}. At least {s}.",
    "{b}. On the other hand, {s}.",
    "{b}, even though {s}.",
)
ALONE: tuple[str, ...] = (
    "{b}.",
    "to cut it short: {b}.",
    "{b}, and I do not know why.",
    "{b}. That is all.",
    "since {weekday} it is like this: {b}.",
)
"""How the clauses stand together: ``{b}`` is what is broken, ``{s}`` what is settled."""

GREETINGS: tuple[str, ...] = (
    "Hello,",
    "Hi there,",
    "Dear team,",
    "Good morning,",
    "Good evening,",
)
CONTEXTS: tuple[str, ...] = (
    "My order number is {order}.",
    "I have been a customer since {year}.",
    "We spoke on {weekday}, I think with {name}.",
    "I wrote to you {days} days ago already.",
    "This is about order {order} from {month}.",
    "In {month} I bought this {product} from you.",
    "For our office in {place} we ordered your {product} {count} times.",
    "The {product} was my present to {name} in {month}.",
    "You know me from ticket {order}.",
    "{name} from your {place} office asked me to write.",
    "I am writing for my mother, who bought the {product}.",
    "This is not my first letter about order {order}, I fear.",
    "After {days} days in the queue of your hotline I try it this way.",
    "Reference {order}, {product}, bought in {month} {year}.",
)
CLOSINGS: tuple[str, ...] = (
    "Thanks, {name}",
    "Kind regards, {name}",
    "Please answer by {weekday}.",
    "I am at home until {weekday}.",
    "You can call me in the morning.",
    "Best wishes from {place}",
    "Thank you for your time.",
    "Sent from my phone",
    "I look forward to your answer. {name}",
    "{name}, customer since {year}",
    "Is there anything you need from me?",
    "I would be glad to hear from you before {month}.",
)

PLAIN_SUBJECTS: tuple[str, ...] = (
    "Question",
    "Help",
    "Please help",
    "My order",
    "Order {order}",
    "Order {order}, again",
    "Following up",
    "Ticket {order}",
    "Two things",
    "No answer yet",
    "{product}",
    "{product} from {month}",
    "Hello from {place}",
    "Request",
    "A word about my {product}",
    "Message for {name}",
    "Still waiting",
    "Urgent!",
    "(no subject)",
    "News?",
)
TOPIC_SUBJECTS: tuple[str, ...] = ("{x}", "Re: {x}", "About {x}", "{x}, order {order}", "Question on {x}")

FILLERS: dict[str, tuple[str, ...]] = {
    "name": (
        *("Amina", "Bela", "Carlos", "Dorothea", "Emil", "Farah", "Gustav", "Hanne", "Ines", "Jonas", "Keiko", "Lothar"),
        *("Mirela", "Noor", "Oskar", "Paula", "Quentin", "Rosa", "Selim", "Tomasz", "Ulla", "Vera", "Wanda", "Yusuf", "Zoe"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ),
    "product": (
        *("kettle", "doorbell", "desk lamp", "rain jacket", "tablet", "headset", "coffee grinder", "rucksack", "printer"),
        *("garden chair", "bicycle light", "baby monitor", "kitchen scale", "air purifier", "tent", "bookshelf", "smart plug"),
        *("hair dryer", "radio", "toaster"),
    ),
    "place": (
        *("Aarhus", "Bergen", "Cork", "Dresden", "Ghent", "Graz", "Leeds", "Lyon", "Malmo", "Nantes", "Porto", "Riga", "Seville"),
        *("Tartu", "Turin", "Utrecht", "Vilnius", "York"),
    ),
    "days": ("two", "three", "four", "five", "six", "eight", "nine", "ten", "twelve", "fourteen"),
    "count": ("two", "three", "four", "five", "six", "ten", "twelve", "twenty"),
    "year": tuple(str(year) for year in range(2009, 2026)),
}
"""Names, days and things, to make tickets differ. None says anything about the queue."""
