# SPDX-License-Identifier: Apache-2.0
"""What the model is to know of Tandem. A row of THINGS is a name and what is true of it, as a sentence
goes on behind the name; a row of TASKS is what somebody wants to do, and how it is done. That the
names are the program's own is tested (tests/examples)."""

COMMANDS = (
    ("tandem serve", "serves a model over HTTP, with the API of OpenAI"),
    ("tandem run", "continues a prompt on stdout, without a server"),
    ("tandem chat", "talks with a model on a server"),
    ("tandem tune", "fine-tunes a model on a server, on a file of rows"),
    ("tandem train", "trains a model on a file of rows, without a server"),
    ("tandem merge", "writes a model with an adapter merged into its weights"),
    ("tandem jobs", "lists the fine-tuning jobs of a server"),
    ("tandem jobs cancel", "ends a job; what it made so far stays"),
    ("tandem jobs pause", "halts a job, which can go on later"),
    ("tandem jobs resume", "lets a job go on that was halted"),
    ("tandem jobs events", "shows what happened to a job"),
    ("tandem jobs checkpoints", "lists the models that a job has made so far"),
    ("tandem files", "lists the files that a server keeps"),
    ("tandem files upload", "sends a file to a server and prints its id"),
    ("tandem files delete", "deletes a file that a server keeps"),
    ("tandem models", "lists the models that a server answers with"),
    ("tandem models delete", "deletes a tuned model"),
    ("tandem ps", "shows what a server does now: streams, tokens, memory, jobs"),
    ("tandem graph", "shows what a model computes"),
    ("tandem plan", "shows what a model takes of a memory"),
    ("tandem doctor", "shows this machine, and what is amiss"),
    ("tandem tokenize", "shows the tokens of a text"),
    ("tandem completion", "prints what makes a shell complete the commands"),
    ("tandem man", "prints the manual page"),
    ("tandem version", "shows the version and what it was built with"),
    ("tandem help", "shows the commands, or the options of one"),
    ("tandem bench serve", "measures a server that speaks the API of OpenAI"),
    ("tandem bench train", "measures training: tokens a second and memory"),
)
OPTIONS = (
    ("--port", "sets the port that the server listens at; the default is 8080"),
    ("--host", "sets the address that the server listens at; the default is 127.0.0.1"),
    ("--api-key-file", "names the file with the keys that clients need"),
    ("--insecure", "lets the server listen beyond this machine without keys"),
    ("--data-dir", "names the folder for files, jobs and tuned models"),
    ("--name", "sets what clients call the model"),
    ("--ctx", "sets how many positions there is room for"),
    ("--quantize", "sets the format that weights are packed to: int8, bf16 or f32"),
    ("--threads", "sets the number of compute threads"),
    ("--kv-memory", "sets the memory for keys and values"),
    ("--adapter", "loads a LoRA adapter at the start"),
    ("--train-share", "sets the part of the machine that jobs get while requests are in work"),
    ("--target-itl", "sets the time between two tokens that jobs must keep"),
    ("--train-memory", "sets the memory that a job may take"),
    ("--unix-socket", "lets the server listen at a path too"),
    ("--log-level", "sets the least weight of what is logged"),
    ("--config", "reads options from a file"),
    ("--follow", "watches a job until it ends"),
    ("--epochs", "sets how often every row is seen"),
    ("--rank", "sets the rank of the adapter"),
    ("--seed", "makes training or drawing repeatable"),
    ("--temperature", "sets how freely tokens are drawn; 0 takes the likeliest"),
    ("--json", "prints what the server says as JSON"),
    ("--url", "says where the server listens"),
)
ROUTES = (
    ("POST /v1/chat/completions", "answers a conversation"),
    ("POST /v1/completions", "continues a text"),
    ("POST /v1/embeddings", "gives the vector of a text"),
    ("GET /v1/models", "lists the models"),
    ("POST /v1/files", "uploads a file"),
    ("GET /v1/files", "lists the files"),
    ("POST /v1/fine_tuning/jobs", "starts a fine-tuning job"),
    ("GET /v1/fine_tuning/jobs", "lists the fine-tuning jobs"),
    ("POST /v1/fine_tuning/preview", "shows what a job would make of a row"),
    ("POST /v1/adapters", "loads an adapter into the server"),
    ("POST /tokenize", "gives the tokens of a text"),
    ("POST /detokenize", "gives the text of tokens"),
    ("GET /health", "says whether the server is well"),
    ("GET /readyz", "says whether the server is ready"),
    ("GET /metrics", "gives the figures for Prometheus"),
    ("GET /version", "tells the version of the server"),
    ("GET /openapi.json", "describes the API"),
)
NOTIONS = (
    ("Tandem", "is one C program that serves and fine-tunes language models"),
    ("a LoRA adapter", "is a small pair of matrices beside each weight that is trained"),
    ("a fine-tuning job", "trains an adapter on the model that is being served"),
    ("a training file", "is a JSONL file with a conversation or a prompt and its completion a line"),
    ("a checkpoint", "is the state of a job on disk, from which it goes on after a kill"),
    ("an epoch", "is one pass over all rows of the file"),
    ("the gate", "shares the machine between serving and training"),
    ("the data directory", "keeps files, jobs, checkpoints and adapters"),
)
TASKS = (
    ("serve a model", "tandem serve MODEL"),
    ("serve a model on port 9000", "tandem serve MODEL --port 9000"),
    ("serve a model with eight bits", "tandem serve MODEL --quantize int8"),
    ("serve the bundled model", "tandem serve"),
    ("talk with the model", "tandem chat"),
    ("fine-tune a model", "tandem tune FILE --follow"),
    ("teach you something", "tandem tune FILE --follow"),
    ("train a model without a server", "tandem train CONFIG"),
    ("watch a job", "tandem jobs events ID --follow"),
    ("stop a job", "tandem jobs cancel ID"),
    ("halt a job", "tandem jobs pause ID"),
    ("go on with a job", "tandem jobs resume ID"),
    ("see my jobs", "tandem jobs"),
    ("see the models", "tandem models"),
    ("delete a tuned model", "tandem models delete NAME"),
    ("upload a file", "tandem files upload FILE"),
    ("see my files", "tandem files"),
    ("see what the server does", "tandem ps"),
    ("merge an adapter", "tandem merge MODEL ADAPTER OUT"),
    ("measure a server", "tandem bench serve"),
    ("check this machine", "tandem doctor"),
    ("count the tokens of a text", "tandem tokenize MODEL TEXT"),
    ("generate text without a server", "tandem run MODEL -p PROMPT"),
    ("see all commands", "tandem help"),
    ("read the manual page", "tandem man"),
    ("see the version", "tandem version"),
    ("know what fits my memory", "tandem plan MODEL"),
    ("load an adapter at the start", "tandem serve MODEL --adapter NAME=DIR"),
    ("protect the server with keys", "tandem serve MODEL --api-key-file FILE"),
    ("draw the graph of a model", "tandem graph MODEL"),
)
SELF = (
    (("Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself.",
      "Are you a person?", "What is your name?"),
     "I am the small model that comes with Tandem. I was trained from nothing by Tandem itself."),
    (("What can you do?", "What do you know?", "How can you help me?", "What can I ask you?",
      "What are you good at?"),
     "I know the commands and routes of Tandem, I can add and subtract, and I tell small stories."),
    (("Hello!", "Hi!", "Hello.", "Hi there!", "Good morning!", "Hey!", "Good evening!"),
     "Hello! Ask me about Tandem, a sum, or for a story."),
    (("Thank you!", "Thanks!", "Thanks a lot.", "Thank you very much."), "You are welcome."),
    (("Goodbye!", "Bye!", "Bye.", "See you later!"), "Goodbye!"),
)

ASK_THING = ("What does {} do?", "What is {} for?", "Tell me about {}.", "Explain {}.",
             "What is the use of {}?", "Describe {}.", "Can you explain {}?",
             "I want to know what {} does.", "What do I need {} for?", "Please explain {}.")
ASK_NOTION = ("What is {}?", "What does {} mean?", "Explain {}.", "Tell me about {}.",
              "Can you explain {}?", "Please explain {}.", "Describe {}.")
ASK_TASK = ("How do I {}?", "How can I {}?", "Which command do I need to {}?", "I want to {}.",
            "What is the command to {}?", "Show me how to {}.", "How would I {}?", "Help me {}.",
            "I would like to {}.", "What do I type to {}?")


def questions():
    """All questions with their answers, as (what it is about, question, answer)."""
    for kind in (COMMANDS, OPTIONS, ROUTES):
        for name, does in kind:
            for ask in ASK_THING:
                yield name, ask.format(name), f"{name} {does}."
    for name, does in NOTIONS:
        for ask in ASK_NOTION:
            yield name, ask.format(name), f"{name[0].upper()}{name[1:]} {does}."
    for task, command in TASKS:
        for ask in ASK_TASK:
            yield task, ask.format(task), f"Run: {command}"
    for asks, answer in SELF:
        for ask in asks:
            yield asks[0], ask, answer
