# SPDX-License-Identifier: Apache-2.0
"""What people say of themselves and others, and ask about later: (statement, question, answer). In a
conversation in which it was said the model gives it back; in one in which it was not, it says that it
does not know."""

THINGS = ("dog cat horse boat bike car shop band garden street school team house song goat parrot "
          "village teddy guitar company").split()
PEOPLE = ("sister brother mother father friend teacher boss neighbour uncle aunt cousin doctor "
          "partner daughter son").split()
LIKED = ("colour food drink song book film season number flower game team animal fruit city sport "
         "word place subject").split()
WORDS = ("red green blue white black brown silver orange purple apples bread soup cheese rice fish "
         "tea coffee milk juice water lemons plums honey cake nuts beans winter summer spring "
         "roses lilies tulips chess cards tennis rowing music maths history poetry swimming running "
         "painting cooking stones stamps coins shells trains planes boats birds spiders snakes "
         "storms heights mirrors clocks gold wool paper glass seven twelve forty midnight noon "
         "Monday Friday Sunday May June October London Paris Rome Madrid Cairo Lima").split()
NAMES = ("Anna Ben Clara David Ella Finn Grace Henry Iris Jack Kate Leo Mia Noah Olive Paul Rosa Sam "
         "Tina Uma Victor Wanda Yusuf Zoe Alba Boris Celia Dora Emil Frida Gustav Hilda Ivan Jonas "
         "Karla Lars Mona Nils Otto Petra Ravi Sofia Theo Ulla Vera Walter Nora Oskar Pia Ruben "
         "Bruno Carlo Diana Elias").split()
MORE = ("able above across after again air all alone along among angle answer arm army art ash "
        "autumn away axe back bad bag ball band bank bar barn basin bay beach bean bed bee begin bend "
        "best bird bit bite blade blow body bold bone both bow box brave bread break brick bright "
        "bring broad brush bulb burn bus busy butter button call calm camp candle captain care cart "
        "carve castle cause chain chair chalk chance cheap chest chief chimney church circle city "
        "clay clean clear climb cloth cloud club coal coast cold comb cook cord corn cotton count "
        "country cover crab cream crop cross crowd crown cry curl curtain dance dark date day deep "
        "deer desk dish dive doctor door down draw dream dress drink drop dry dust each ear early "
        "earth east edge egg eight elbow empty engine enjoy enter equal evening every exact eye face "
        "fact fair fall family far fast feather feed field fifty fight fill find finger fire first "
        "five flag flat float floor flour fly fold follow foot forest fork four fox frame fresh "
        "front frost full fun gain garden gate gentle ghost glad glove goal golden grain grape grass "
        "great ground group grow guess guest guide hair half hall hammer hand harbour hard harvest "
        "head heart heat heavy hedge help high hill hold hole honest hook hope horn hotel hour house "
        "hundred hunt ice idea inch inner iron island ivory jacket jar jewel job join joke journey "
        "judge juggle jump junior just keen keep kettle kick kind kitchen kite knee knife knock "
        "ladder lake land large last late laugh law leaf learn left lemon lesson letter light lime "
        "line lion list little load long loose loud low luck lunch machine magic main make market "
        "mask master match meadow meal mean meet melon metal middle mile mill mind minute mirror "
        "model moon morning most mother motto mouse mouth move mud myth nail narrow near neck needle "
        "never news next nine noise north nose note number oak object ocean odd offer office oil old "
        "open orchid other outside oven own ox pack page pair pale palm pan park part past path peace "
        "peanut pear pen pepper phone physics piano picture pillow pine pipe plan plate play plenty "
        "pocket point pole pond pool post potato pound print proud pull pump pure push quarter quick "
        "quiet quill quilt race rain raise ready rest rich ride right ring ripe rise road rock roof "
        "root rope rough round row rule rush rye safe salt same sand save saw scale sea season seat "
        "second seed sell send seven shade sharp sheep shelf ship shirt shoe short sign silk simple "
        "sister six skill skin sky slate sleep slow small smile smoke snow soap soft soil son soon "
        "sound south space spark spell spice spoon square stable staff stage star steady steam steel "
        "stem step stick still storm story strange straw street string strong sugar suit sun supper "
        "swallow swan sweet swim swing table tail tall tank taste team ten tent test thick thin third "
        "thread three throat thumb thunder ticket tide tiger time tin tiny toast today tomato tooth "
        "tower town track trade trip true trunk trust tube turn twelve twin two uncle under upper use "
        "valley van vase velvet view village violin visit voice wagon wait walk wall warm wash wasp "
        "watch wave wax weak week west wet wheat wheel white wide wild win wind window wing wise wolf "
        "wood word world worm year yellow yes young zebra zero zone").split()
JOBS = ("baker nurse pilot farmer painter singer teacher sailor cook tailor miner writer dancer "
        "builder gardener driver lawyer plumber").split()
MINE = (
    ("My {thing} is called {name}.", "What is my {thing} called?", "Your {thing} is called {name}."),
    ("My {person} is called {name}.", "What is my {person} called?",
     "Your {person} is called {name}."),
    ("My name is {name}.", "What is my name?", "Your name is {name}."),
    ("My favourite {liked} is {any}.", "What is my favourite {liked}?",
     "Your favourite {liked} is {any}."),
    ("I live in {name}.", "Where do I live?", "You live in {name}."),
    ("I am {n} years old.", "How old am I?", "You are {n} years old."),
    ("My {thing} is {n} years old.", "How old is my {thing}?", "Your {thing} is {n} years old."),
    ("I was born in {any}.", "Where was I born?", "You were born in {any}."),
    ("My birthday is in {any}.", "When is my birthday?", "Your birthday is in {any}."),
    ("I like {any}.", "What do I like?", "You like {any}."),
    ("I collect {any}.", "What do I collect?", "You collect {any}."),
    ("I studied {any}.", "What did I study?", "You studied {any}."),
    ("I play {any}.", "What do I play?", "You play {any}."),
    ("I am afraid of {any}.", "What am I afraid of?", "You are afraid of {any}."),
    ("I am a {job}.", "What do I do?", "You are a {job}."),
    ("I get up at {any}.", "When do I get up?", "You get up at {any}."),
    ("I eat {any} for lunch.", "What do I eat for lunch?", "You eat {any} for lunch."),
    ("I met my {person} in {any}.", "Where did I meet my {person}?",
     "You met your {person} in {any}."),
    ("I bought {any} last week.", "What did I buy last week?", "You bought {any} last week."),
    ("My {person} is a {job}.", "What does my {person} do?", "Your {person} is a {job}."),
    ("My {person} lives in {name}.", "Where does my {person} live?",
     "Your {person} lives in {name}."),
    ("My {thing} is {any}.", "What colour is my {thing}?", "Your {thing} is {any}."),
    ("My {person} taught me {any}.", "Who taught me {any}?", "Your {person} taught you {any}."),
    ("{name} is my {person}.", "Who is my {person}?", "Your {person} is {name}."),
)
OTHERS = (
    ("{who} lives in {name}.", "Where does {who} live?", "{who} lives in {name}."),
    ("{who} is {n} years old.", "How old is {who}?", "{who} is {n} years old."),
    ("{who} is a {job}.", "What does {who} do?", "{who} is a {job}."),
    ("{who} likes {any}.", "What does {who} like?", "{who} likes {any}."),
)


def fresh_name(draw):
    """A name out of syllables, of which there are many more than the corpus holds."""
    begin, mid, end = "BDFGHKLMNPRSTVWZ", "aeiou", ("n", "r", "l", "s", "m", "nd", "rt", "lo", "ra",
                                                  "ki", "no", "sa", "ta", "vi")
    name = draw.one(begin) + draw.one(mid) + draw.one(end)
    if draw.chance(0.5):
        name += draw.one(mid) + draw.one(end)
    return name


def a_name(draw):
    """Mostly one that it has seen before: names of pieces never put together so are hard to give
    back for a model this small."""
    return fresh_name(draw) if draw.chance(0.1) else draw.one(NAMES)


def any_of(draw):
    if draw.chance(0.2):
        return a_name(draw)
    word = draw.one(WORDS if draw.chance(0.5) else MORE)
    return f"{draw.one(WORDS)} and {word}" if draw.chance(0.15) else word


def letters(draw):
    """A word that there is not, so that every piece of a word is met somewhere."""
    word = "".join(draw.one("abcdefghijklmnopqrstuvwxyz") for _ in range(2 + draw.below(5)))
    return word.capitalize() if draw.chance(0.5) else word


def echo(draw):
    """What is to be said again: (question, answer)."""
    words = [letters(draw) if draw.chance(0.3) else a_name(draw) if draw.chance(0.15) else
             draw.one(MORE) for _ in range(1 + draw.below(4))]
    if draw.chance(0.4):
        words = [w.capitalize() for w in words]
    said = " ".join(words)
    return draw.one(("Say {}.", "Say: {}", "Repeat {}.", "Please say {}.")).format(said), said


def any_word(draw):
    at = draw.below(10)
    return (letters(draw) if at < 2 else fresh_name(draw) if at < 3 else str(draw.below(1000)) if at < 4 else
            draw.one(NAMES) if at < 5 else draw.one(MORE))


LISTS = ("{}", "{}", '"{}"', "_{}", "({})", "-{}-")
PAIRS = ("{}: {}", "{} {}", "{} is {}", '"{}": "{}"', "{}_{}", "{} = {}")


def copies(draw):
    """A text that says words several times, in other forms or another order: what was said before tells
    most of it, so a model learns early to look there."""
    words = [any_word(draw) for _ in range(5 + draw.below(10))]
    if draw.chance(0.5):
        parts = [draw.one((" ", ", ")).join(draw.one(LISTS) if draw.chance(0.1) else form for _ in words).format(*words)
                 for form in (draw.one(LISTS) for _ in range(2 + draw.below(2)))]
        return "\n".join(parts)
    pairs, parts = list(zip(words[::2], words[1::2])), []
    for form in (draw.one(PAIRS) for _ in range(3)):
        draw.shuffle(pairs)
        parts.append(", ".join(form.format(*pair) for pair in pairs))
    return "; ".join(parts)


def fact(draw, forms=MINE + OTHERS):
    """A form with its blanks filled."""
    name = a_name(draw)
    blanks = {"thing": draw.one(THINGS), "person": draw.one(PEOPLE), "liked": draw.one(LIKED),
              "job": draw.one(JOBS), "n": str(2 + draw.below(97)), "any": any_of(draw),
              "name": name + " " + a_name(draw) if draw.chance(0.12) else name,
              "who": a_name(draw)}
    return tuple(part.format(**blanks) for part in draw.one(forms))
