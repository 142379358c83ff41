# SPDX-License-Identifier: Apache-2.0
"""Templates in the manner of real models, written for these tests, and conversations for them."""

ODD = "Grüße \"q\" 'a' {{ n }} {% if %} <|im_end|> </s> [INST] \\ \n\n  tab\t🎉 <think>no</think> "

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather \"now\" <b>in</b> a city — & more",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "days": {"type": "integer", "enum": [1, 3, 7], "default": 1},
            "exact": {"type": "boolean"}, "limit": {"type": "number", "default": 0.5}},
            "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {}}},
]

CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {
        "name": "get_weather", "arguments": {"city": "Zürich", "days": 3, "exact": True}}},
    {"id": "call_2", "type": "function", "function": {"name": "noop", "arguments": {}}}]}

BASE = {"bos_token": "<s>", "eos_token": "</s>"}

CONTEXTS = {
    "one": {**BASE, "messages": [{"role": "user", "content": "Hi"}]},
    "system": {**BASE, "messages": [
        {"role": "system", "content": "  Be brief. \n"}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}]},
    "odd": {**BASE, "messages": [
        {"role": "user", "content": ODD}, {"role": "assistant", "content": ODD + "\n"},
        {"role": "user", "content": ""}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}]},
    "tools": {**BASE, "tools": TOOLS, "messages": [
        {"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather?"}, CALL,
        {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "{\"t\": 21.5}"},
        {"role": "tool", "tool_call_id": "call_2", "name": "noop", "content": "ok"},
        {"role": "assistant", "content": "Warm.", "reasoning_content": "21.5 is warm"},
        {"role": "user", "content": "Thanks"}]},
    "parts": {**BASE, "tools": None, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"},
                                     {"type": "text", "text": ODD}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}]},
    "wrong": {**BASE, "messages": [{"role": "assistant", "content": "first"},
                                   {"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    "none": {**BASE, "messages": []},
}

TEMPLATES = {
    "turns": """{% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + (message.content or '') + '<|im_end|>' + '\\n' -}}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "headers": """{{- bos_token }}
{%- if messages and messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|head|>system<|/head|>\\n\\nToday: ' + strftime_now('%d %b %Y') + '\\n' }}
{%- if tools is defined and tools is not none %}
    {{- 'Tools: ' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- '\\n\\n' }}
    {%- endfor %}
{%- endif %}
{{- system + '<|eot|>' }}
{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}
        {{- '<|head|>ipython<|/head|>\\n\\n' }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot|>' }}
    {%- elif message.tool_calls is defined and message.tool_calls %}
        {{- '<|head|>' + message.role + '<|/head|>\\n\\n' }}
        {%- for call in message.tool_calls %}
            {%- set f = call.function if call.function is defined else call %}
            {{- '{"name": "' + f.name + '", "parameters": ' + (f.arguments | tojson) + '}' }}
            {%- if not loop.last %}{{ '; ' }}{% endif %}
        {%- endfor %}
        {{- '<|eot|>' }}
    {%- elif message.content is string %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- else %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' }}
        {%- for part in message.content %}
            {%- if part.type == 'text' %}{{ part.text }}{% else %}{{ '<|' ~ part.type ~ '|>' }}{% endif %}
        {%- endfor %}
        {{- '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
""",
    "strict": """{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ message['content'] + eos_token }}
{% else %}
{{ raise_exception('Only user and assistant roles are supported!') }}
{% endif %}
{% endfor %}
""",
    "thinking": """{%- set ns = namespace(last_query=messages | length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = messages | length - 1 - loop.index0 %}
    {%- if not ns.seen and message.role == 'user' and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.seen = true %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- elif message.content is iterable %}
        {%- set content %}
            {%- for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}
        {%- endset %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == 'assistant' %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_query and (loop.last or reasoning) %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{ call.function.name }}{{ '", "arguments": ' }}
            {%- if call.function.arguments is string %}{{ call.function.arguments }}{% else %}{{ call.function.arguments | tojson }}{% endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}
""",
    "typed": """{%- macro type_of(spec, required=true) -%}
    {%- if spec.enum is defined -%}
        {{- spec.enum | map('tojson') | join(' | ') -}}
    {%- elif spec.type == 'object' -%}
        {{- '{' -}}
        {%- for name, sub in (spec.properties or {}) | dictsort -%}
            {{- name ~ ('' if name in (spec.required or []) else '?') ~ ': ' ~ type_of(sub) -}}
            {%- if sub.description %}{{ ' // ' + sub.description }}{% endif -%}
            {%- if not loop.last %}{{ ', ' }}{% endif -%}
        {%- endfor -%}
        {{- '}' -}}
    {%- else -%}
        {{- {'string': 'string', 'integer': 'number', 'number': 'number', 'boolean': 'boolean'}.get(spec.type, 'any') -}}
    {%- endif -%}
    {%- if spec.default is defined %}{{ ' = ' ~ spec.default | tojson }}{% endif -%}
{%- endmacro -%}
{{ bos_token }}{% if tools %}# Tools
{% for tool in tools %}
{% set f = tool.function %}
// {{ f.description | default('(none)', true) }}
type {{ f.name }} = (_: {{ type_of(f.parameters) }}) => any;
{% endfor %}
{% endif %}
{% for m in messages -%}
    <{{ m.role | upper }}>
    {%- if m.content is string %} {{ m.content | replace('<', '&lt;') | trim }}
    {%- elif m.content %} {{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join(' ') }}
    {%- endif %}
    {%- if m.tool_calls %} {{ m.tool_calls | map(attribute='function') | list | tojson }}{% endif %}
    </{{ m.role | upper }}>{{ '\\n' if not loop.last }}
{%- endfor %}
{% if add_generation_prompt %}

<ASSISTANT>{% endif %}
""",
    "marked": """{% for message in messages %}
{% if message.role == 'assistant' %}
{{ '<|assistant|>' }}
{% generation %}
{{ message.content or '' }}
{% for call in message.tool_calls or [] %}
[{{ call.function.name }}({% for k, v in call.function.arguments.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %})]
{% endfor %}
{{ eos_token }}
{% endgeneration %}
{% else %}
{{ '<|' ~ message.role ~ '|>' }}
{{ message.content }}
{{ eos_token }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
""",
    "plain": """{% if messages and messages[0]['role'] == 'system' %}{% set lead = messages[0]['content'] ~ '\\n\\n' %}{% set rest = messages[1:] %}{% else %}{% set lead = '' %}{% set rest = messages %}{% endif %}
{% for m in rest %}{% if loop.first %}{{ lead }}{% endif %}{% if m.role == 'user' %}### User: {{ m.content }}

{% elif m.role == 'assistant' %}### Answer: {{ m.content }}{{ eos_token }}
{% endif %}{% endfor %}{% if add_generation_prompt %}### Answer:{% endif %}""",
}
