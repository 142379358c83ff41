# SPDX-License-Identifier: Apache-2.0
"""Small templates by feature: bare expressions, one case each, and whole templates.

In EXPR a bar with no blank beside it parts two expressions; a filter's bar has blanks.
"""
# lint: form: the words of these templates are data

DATA = {
    "n": 7, "neg": -3, "zero": 0, "x": 2.5, "big": 9007199254740993, "yes": True, "no": False,
    "nothing": None, "s": "Hello, World", "empty": "", "pad": "  two  words \n",
    "uni": "Grüße, мир! 你好 🎉 ﬁn ß", "quote": "it's \"both\"", "ctrl": "a\tb\nc\\d\x01\x7f\u00a0\u200b",
    "html": "<b>&\"'</b>", "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "nums": [3, 1, 2, 10, -1], "mixed": [1, "a", None, 2.0, [1, 2], {"k": "v"}],
    "nest": {"a": {"b": [10, {"c": "deep"}]}, "items": "mine", "1": "one"},
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
               {"name": "Cy", "age": 31, "tags": ["y", "z"]}, {"name": "dan", "tags": None}],
    "d": {"z": 1, "a": 2, "M": 3}, "floats": [0.1, 1e16, 1.5e-7, 100.0, 1e22, 123456789.123, 5e-324],
}

EXPR = {
    "literals": r"""
1|-1|0x1F|0b101|0o17|1_000|1.5|1e3|1.5e-3|2E2|'a'|"b"|'it\'s'|"\"q\""|'\n \t \\ \x41 \u00e9 \q'
true|True|false|False|none|None|[]|[1,2,]|()|(1,)|(1,2)|{}|{'a':1,}|'a' 'b' "c"
{1: 'a', 2.5: 'b', none: 'c', true: 'd'}|[[], {}, ()]|{'a': {'b': [1, (2,)]}}
9223372036854775807|0.1|1.0|100000000000000000.0|1e15|1e16|1e-4|1e-5|-0.0|0.1 + 0.2|1/3|2/1
""",
    "arithmetic": r"""
n + 1|n - 10|n * neg|n / 2|n // 2|n % 3|neg // 2|neg % 2|-7 // 2|-7 % 3|7 % -3|2 ** 10|2 ** -1|2 ** 0.5
2 ** 3 ** 2|-2 ** 2|x * 2|x // 1|x % 1|-x % 2|7.5 // -2|7.5 % -2|-7.5 % 2|n / 0|n // 0|n % 0|x // 0
1 + 2 * 3 - 4 / 2|(1 + 2) * 3|+n|-n|- - n|1 - -1|yes + yes|yes * 3|s * 2|2 * s|s * -1|s * 0|[1] * 3
[1] + [2]|(1,) + (2,)|s + 1|1 + s|[1] + (2,)|nothing + 1|missing + 1|1 + missing|s - 1|n + nothing
9223372036854775807 + 0|1e308 * 10|0.0 / 1|-0.0 * 1|1 / 3 * 3|10 // 3 * 3 + 10 % 3|n ~ s|n ~ x ~ none
s ~ missing ~ '!'|1 + 2 ~ 3|1 ~ 2 * 3|'a' ~ 1 + 2|[1] ~ {}
""",
    "compare": r"""
1 < 2|1 < 2 < 3|1 < 3 < 2|3 > 2 > 1|1 == 1.0|1 == true|0 == false|'a' < 'b'|'a' < 'B'|'a' == 1|none == none
none == false|[1, 2] == [1, 2]|[1, 2] < [1, 3]|[1] < [1, 0]|(1,) == [1]|{'a': 1} == {'a': 1.0}|1 < 'a'
'a' < 1|none < 1|[1] < 1|missing == missing|missing == none|missing < 1|1 in [1, 2]|1 in [true]|'a' in 'abc'
1 in 'abc'|'a' in d|'z' in d|'q' not in d|1 not in [1]|1 in n|none in [none]|[1] in [[1]]|'' in ''|'b' in missing
not 1 in [2]|not 1|not not 1|1 != 2|1 != 1.0|n >= 7|n <= 6|1 in [2] == false|'é' < 'z'|'é' > 'z'|'你' < '🎉'
1 == 1 and 2 == 2 or 3|0 or '' or none|0 and 1|1 and 2 and 3|'' or 'x'|no or nothing|1 if 2|1 if 0|1 if 0 else 2
1 if 0 else 2 if 0 else 3|'a' if missing else 'b'|(1 if yes) ~ 'x'|[1] in {}|{} in {}|2 in (1, 2)|2 in {2: 1}
""",
    "access": r"""
nest.a.b|nest['a']['b'][0]|nest.a.b[1].c|nest.a['b'].1.c|nest.items|nest['items']|nest.missing|nest['missing']
nest.missing.more|missing.more|missing['more']|s[0]|s[-1]|s[99]|s['upper']|nums[0]|nums[-1]|nums[99]|nums['x']
nums.0|d.a|d['a']|d[0]|d.get('a')|d.get('q')|d.get('q', 5)|nest['1']|nest.1|n.real_thing|none.x|nothing.x|(1, 2).0
[1, 2][true]|s[1:3]|s[:3]|s[3:]|s[::-1]|s[::2]|s[-3:]|s[:-3]|s[5:1:-1]|s[10:1:-3]|s[99:]|s[-99:2]|s[2:2]|s[::0]
nums[1:3]|nums[::-1]|nums[::2]|nums[-2:]|(1,2,3)[1:]|uni[0:5]|uni[5:9]|uni[-4:]|uni[::-1]|uni[7]|d[1:]|n[1:]|none[0]
missing[1:]|s['1':]|s[1:none]|nums[:99]|nums[-99:]|nums[9223372036854775807:]|nums[::9223372036854775807]|[][0]
d.items()|d.keys()|d.values()|d.items() | list|d.keys() | join|d.values() | sum|d.items()[0]|d.copy()|nums.copy()
nums.index(2)|nums.index(99)|nums.count(1)|words.index('fig', 1)|(1, 1).count(1)|d.keys() | list|'a' in d.keys()
""",
    "sandbox": r"""
''.__class__|''.__class__.__mro__|''['__class__']|''|attr('__class__')|[].append(1)|nums.append(1)|nums.pop()
d.update({})|d.pop('a')|d.clear()|d.setdefault('a', 1)|nums.sort()|nums.reverse()|nums.extend([1])|nums.insert(0, 1)
nums.remove(1)|d.popitem()|nums.clear()|range.__self__|cycler.__init__|joiner.__init__.__globals__
namespace.__init__|dict.fromkeys|''.format.__self__|'{0.__class__}'.format(1)
'{0.__class__.__mro__}'.format(1)|'{x.__class__}'.format(x=[])|''.join.__call__|d.__len__|d['__len__']|nums.__len__()
(1).__class__|none.__class__|missing.__class__|missing.__class__.x|raise_exception.__globals__|__import__|config
""",
    "str_methods": r"""
s.upper()|s.lower()|s.title()|s.capitalize()|s.swapcase()|uni.upper()|uni.lower()|uni.title()|uni.capitalize()|uni.swapcase()
pad.strip()|pad.lstrip()|pad.rstrip()|'xxaxx'.strip('x')|'abcba'.strip('ab')|'abc'.lstrip('ba')|'abc'.rstrip('cb')|s.strip(none)
s.split()|s.split(',')|s.split(', ')|'a,b,,c'.split(',')|'a,b,c'.split(',', 1)|'a b  c'.split(' ')|' a  b '.split()|''.split()
''.split(',')|' a b c '.split(none, 1)|' a b c '.rsplit(none, 1)|'a,b,c'.rsplit(',', 1)|'a,b,c'.rsplit(',')|'abc'.split('')
s.split(sep=',')|s.split(',', maxsplit=1)|'aXbXc'.split('X', -1)|'a\nb\r\nc\rd'.splitlines()|'a\n\nb\n'.splitlines()
'a\nb'.splitlines(true)|''.splitlines()|s.partition(', ')|s.partition('q')|s.rpartition('o')|s.rpartition('q')
s.replace('o', '0')|s.replace('o', '0', 1)|s.replace('l', '')|'abc'.replace('', '-')|'abc'.replace('', '-', 2)|''.replace('', 'x')
s.find('o')|s.find('q')|s.find('o', 5)|s.rfind('o')|s.index('W')|s.index('q')|s.rindex('o')|s.count('l')|s.count('')|uni.find('м')
uni.count('')|s.startswith('Hell')|s.startswith('ell', 1)|s.startswith(('x', 'H'))|s.endswith('ld')|s.endswith(('x', 'd'))
s.endswith('o', 0, 5)|s.startswith('')|s.startswith(1)|s.startswith(missing)|'12'.isdigit()|''.isdigit()|'1a'.isdigit()|'ab'.isalpha()
'a1'.isalnum()|' \t'.isspace()|'AB1'.isupper()|'ab1'.islower()|'1'.isupper()|'a'.zfill(3)|'-5'.zfill(4)|'a'.center(4)|'ab'.center(5)
'ab'.center(5, '*')|'a'.ljust(3, '.')|'a'.rjust(3)|'abc'.center(2)|','.join(['a', 'b'])|','.join([1])|','.join('abc')|'-'.join([])
'preab'.removeprefix('pre')|'absuf'.removesuffix('suf')|'x'.removeprefix('y')|s.nothing()|s.upper(1)|s.replace('a')|s.strip(1)
'Straße'.upper()|'ŉ'.upper()|'ǆ'.title()|'ǅ'.lower()|'İ'.lower()|'ﬁ'.title()|"they're bill's".title()|'a1b2'.title()|'ß'.casefold is defined
""",
    "format": r"""
'%s' % s|'%s and %s' % (1, 2)|'%d' % 3.7|'%5d.' % 42|'%-5d.' % 42|'%05d' % 42|'%+d' % 42|'% d' % 42|'%x' % 255|'%X' % 255|'%#x' % 255
'%o' % 8|'%f' % 2.5|'%.2f' % 2.555|'%.0f' % 2.5|'%e' % 12345.678|'%g' % 0.0001|'%g' % 1e10|'%10.3f.' % 2.5|'%-10.3f.' % 2.5|'%c' % 65
'%c' % 'é'|'%r' % 'a'|'%r' % quote|'%s' % none|'%s' % [1]|'%s' % (1,)|'%%' % ()|'%s' % missing|'%d' % 'a'|'%s %s' % 1|'%s' % (1, 2)
'%(a)s-%(z)d' % d|'%(q)s' % d|'%(a)s' % 1|'%5s.' % 'ab'|'%-5s.' % 'ab'|'%.2s.' % 'abcd'|'%*d' % (5, 42)|'%q' % 1|'%' % 1|'abc' % d|'abc' % 1
'{}'.format(1)|'{} {}'.format(1, 'a')|'{0} {1} {0}'.format('a', 'b')|'{a} {b}'.format(a=1, b=2)|'{0.name}'.format(people[0])
'{0[name]}'.format(people[0])|'{0[1]}'.format(nums)|'{{}}'.format()|'{:>5}.'.format('a')|'{:<5}.'.format('a')|'{:^5}.'.format('a')
'{:*^7}'.format('a')|'{:05d}'.format(42)|'{:+d}'.format(42)|'{:,}'.format(1234567)|'{:,.2f}'.format(1234567.891)|'{:.3f}'.format(2.5)
'{:x}'.format(255)|'{:#x}'.format(255)|'{:b}'.format(5)|'{:e}'.format(12345.678)|'{:%}'.format(0.25)|'{:.1%}'.format(0.256)
'{:10.2f}.'.format(2.5)|'{:<10.2f}.'.format(2.5)|'{!r}'.format('a')|'{!s}'.format([1])|'{:{w}}.'.format('a', w=4)|'{:.2}'.format('abc')
'{'.format()|'}'.format()|'{0} {}'.format(1)|'{} {0}'.format(1)|'{1}'.format(1)|'{q}'.format()|'{:d}'.format('a')|'{:s}'.format('a')
'{}'.format(none)|'{}'.format([1, 'a'])|'{:5}'.format([1])|'{:5}.'.format(true)|'{:g}'.format(1e10)|'{:_}'.format(1234567)
'%s: %s' | format('a', 1)|'%(x)s' | format(x=5)|'%d%%' | format(5)|'{:08.3f}'.format(-3.14159)|'{:=+6d}'.format(42)|'{:>+6d}'.format(42)
""",
    "filters_text": r"""
s | upper|s | lower|s | title|s | capitalize|'foo-bar (baz) {qux} <quux>' | title|uni | title|uni | upper|pad | trim|'xxaxx' | trim('x')
s | replace('o', '0')|s | replace('o', '0', 1)|n | replace(7, 8)|none | replace('None', 'x')|s | length|uni | length|uni | count
words | join|words | join(', ')|nums | join('-')|people | join(', ', attribute='name')|[] | join('x')|missing | join|s | join('.')|nums | join(none)
n | string|x | string|none | string|[1, 'a'] | string|missing | string|s | string|html | e|html | escape|html | escape | escape|html | safe
html | safe | e|html | forceescape|html | e | forceescape|(html | safe) + '<'|'<' + (html | safe)|html | e ~ '<'|(html | e) | upper
html | e | length|[html | e]|html | safe | replace('<', '[')|(html | safe).replace('<', '<')|'%s' % (html | safe)|('<%s>' | safe) % html
'a\nb\n\nc' | indent|'a\nb' | indent(2)|'a\nb' | indent(2, true)|'a\n\nb' | indent(2, blank=true)|'a\nb\n' | indent|'' | indent|'' | indent(first=true)
'a\nb' | indent('> ')|'a\nb' | indent(width='--', first=true)|none | indent|'a\n' | indent(blank=true)|'\n\n' | indent(2, true, true)
'foo bar baz qux' | truncate(9)|'foo bar baz qux' | truncate(9, true)|'foo bar baz qux' | truncate(11)|'foo bar baz qux' | truncate(11, false, '..', 0)
'foo bar' | truncate(2)|'foobarbazqux' | truncate(5, false, '', 0)|s | truncate|'a b c d e f g' | truncate(8, leeway=0)|s | wordcount|uni | wordcount|'' | wordcount
'a' | center(5)|'ab' | center(5)|s | center(3)|'a b/c?d=é&' | urlencode|{'a b': 'c/d', 'é': 1} | urlencode|[('a', 1)] | urlencode|5 | urlencode
s | reverse|uni | reverse|nums | reverse | list|s | list|d | list|none | list|n | list|s | first|s | last|'' | first|[] | last|nums | first
""",
    "filters_json": r"""
s | tojson|uni | tojson|quote | tojson|ctrl | tojson|html | tojson|n | tojson|x | tojson|none | tojson|yes | tojson|mixed | tojson|nest | tojson
d | tojson(indent=2)|mixed | tojson(indent=4)|[] | tojson(indent=2)|{} | tojson(indent=2)|[[]] | tojson(indent=1)|nest | tojson(indent=0)
nest | tojson(indent='--')|nest | tojson(separators=(',', ':'))|d | tojson(sort_keys=true)|uni | tojson(ensure_ascii=true)|uni | tojson(true)
ctrl | tojson(ensure_ascii=true)|(1, 2) | tojson|{1: 2, none: 3, true: 4, 2.5: 5} | tojson|{(1, 2): 3} | tojson|missing | tojson|[missing] | tojson
range(3) | tojson|d.items() | tojson|nums | select | tojson|floats | tojson|1e400 | tojson|[1e400, -1e400] | tojson|big | tojson|d | tojson | length
d | tojson(2)|d | tojson(indent=none)|d | tojson(indent=-1)|mixed | tojson(indent=2, separators=(', ', ' : '))|'\u2028' | tojson|d | tojson(bad=1)
""",
    "filters_seq": r"""
nums | sort|nums | sort(reverse=true)|words | sort|words | sort(case_sensitive=true)|words | sort(true)|people[:3] | sort(attribute='age') | map(attribute='name') | list
people[:3] | sort(attribute='age,name') | map(attribute='name') | list|people | sort(attribute='age')|mixed | sort|[none, none] | sort|['b', 1] | sort
words | unique | list|words | unique(true) | list|people | unique(attribute='age') | map(attribute='name') | list|[[1], [1]] | unique | list|words | unique
nums | min|nums | max|words | min|words | max(true)|[] | min|[] | max is defined|people[:3] | max(attribute='age')|nums | sum|[] | sum|people[:3] | sum('age')
[1.5, 2] | sum|nums | sum(start=10)|words | sum|[[1], [2]] | sum(start=[])|nums | batch(2) | list|nums | batch(2, 0) | list|nums | batch(9) | list|nums | batch(0) | list
nums | slice(2) | list|nums | slice(3, 'x') | list|nums | slice(7) | list|nums | slice(0) | list|d | dictsort|d | dictsort(true)|d | dictsort(by='value')
d | dictsort(reverse=true)|d | dictsort(by='q')|nums | dictsort|d | items | list|missing | items | list|nums | items | list|none | items
people[:3] | groupby('age')|people | groupby('age', default=0)|words | groupby(0) | list|[] | groupby('x')|people | groupby('age') | list
d | length|nums | length|none | length|n | length|nums | select | length|missing | length|range(5) | length|d.items() | length|nums | list | length
nums | first|nums | last|[] | first|d | first|d | last|range(3) | last|nums | select | first|nums | select | last|s | first|none | first|n | first
range(5) | list|range(2, 5) | list|range(0, 10, 3) | list|range(5, 0, -2) | list|range(0) | list|range(3)|range(1, 5)|range(0, 4, 2)|range(3)[1]|range(3)[9]
range(3)[-1]|2 in range(3)|range(100001)|range(1, 2, 0)|range('a')|range()|range(true)|range(3) == range(0, 3)|(range(3) | list) + [3]
""",
    "filters_pick": r"""
people | map(attribute='name') | list|people | map(attribute='age') | list|people | map(attribute='age', default=0) | list|people | map(attribute='tags.0') | list
words | map('upper') | list|nums | map('string') | join|words | map('replace', 'p', 'q') | list|words | map('nofilter') | list|words | map | list|[] | map | list
people | map(attribute='name', bad=1) | list|words | map('length') | sum|nums | select('odd') | list|nums | select('gt', 1) | list|nums | reject('odd') | list
nums | select | list|[0, 1, '', 'a', none] | select | list|[0, 1, ''] | reject | list|nums | select('divisibleby', 2) | list|people | selectattr('tags') | map(attribute='name') | list
people | selectattr('age', 'equalto', 31) | map(attribute='name') | list|people | selectattr('age', 'defined') | list | length|people | rejectattr('age', 'defined') | list | length
people | rejectattr('tags') | map(attribute='name') | list|people | selectattr('name', 'in', ['Ann', 'Cy']) | map(attribute='name') | join|people | selectattr | list
people | selectattr('age', 'nosuch') | list|people | selectattr('age', '>', 30) | list|nums | select('nosuch') | list|missing | map('upper') | list|none | map('upper') | list
missing | selectattr('x') | list|n | map('upper') | list|missing | default('x')|'' | default('x')|'' | default('x', true)|none | d('x')|none | d('x', true)
missing | default|missing | default(1) | default(2)|nest.q.z | default('x')|nest.q | default('x')|people[0] | attr('name')|s | attr('upper')|d | attr('a') is defined
nums | map('abs') | list|['1', 'x'] | map('int', default=9) | list|[[1, 2], [3]] | map('sum') | list|[[3, 1]] | map('sort', reverse=true) | list|[d] | map('dictsort') | list
""",
    "filters_num": r"""
-5 | abs|-2.5 | abs|yes | abs|s | abs|missing | abs|'42' | int|' 42 ' | int|'4_2' | int|'4.9' | int|'x' | int|'x' | int(5)|'1f' | int(0, 16)|'0x1f' | int(0, 16)
'0x1f' | int(base=0)|'0b11' | int(0, 2)|'-5' | int|4.9 | int|-4.9 | int|none | int|none | int('q')|yes | int|[] | int|missing | int|'' | int|'1e3' | int|'z' | int(0, 36)
'1.5' | float|'x' | float|'x' | float(2)|' 1e3 ' | float|'1_0.5' | float|'inf' | float|'nan' | float|none | float|5 | float|yes | float|'-Infinity' | float|missing | float
2.5 | round|3.5 | round|2.567 | round(2)|2.567 | round(2, 'floor')|2.561 | round(2, 'ceil')|-2.5 | round|42 | round|42 | round(-1)|45 | round(-1)|55 | round(-1)|-45 | round(-1)
1234.5678 | round(-2)|2.675 | round(2)|1e22 | round|0.5 | round|1.5 | round(0, 'floor')|7 | round(1, 'ceil')|s | round|2.5 | round(method='q')|'5' | int + 1|1.005 | round(2)
floats|floats | join(' ')|0.1 + 0.7|1e100|1.7976931348623157e308|123456.789e3|1.0e-10|big|big + 1|3.0|-1.5|1e21|1e17 + 1|0.00001234|5e-324|2.2250738585072014e-308
""",
    "tests": r"""
n is defined|missing is defined|missing is undefined|nest.q is defined|nest.q.r is defined|none is none|missing is none|n is not none|yes is boolean|n is boolean
yes is true|1 is true|no is false|0 is false|n is integer|x is integer|yes is integer|x is float|n is float|n is number|x is number|yes is number|s is number
s is string|n is string|d is mapping|nums is mapping|nums is sequence|s is sequence|d is sequence|n is sequence|(1,) is sequence|range(2) is sequence
nums | select is sequence|nums | select is iterable|n is iterable|s is iterable|d is iterable|none is iterable|missing is iterable|missing is sequence|missing is mapping
range is callable|n is callable|s.upper is callable|missing is callable|dict is callable|1 is odd|2 is even|-1 is odd|2.0 is even|s is odd|9 is divisibleby 3
9 is divisibleby(2)|9 is divisibleby 0|n is sameas 7|none is sameas none|yes is sameas true|1 is sameas true|[] is sameas []|d is sameas d|n is equalto 7|n is eq(7)
n is ne 7|n is lt 8|n is lessthan(8)|n is gt 8|n is greaterthan 5|n is ge 7|n is le 6|n is in [7]|n is in(nums)|n is not in [7]|s is in 'x'|'a' is in d|'abc' is lower
'ABC' is upper|'aBc' is lower|5 is lower|'upper' is filter|'nosuch' is filter|'odd' is test|html | e is escaped|html is escaped|n is nosuch|n is not nosuch
n is defined and x is defined|not n is defined|n is not defined or yes|n is string or 'q'|n is divisibleby 7 and yes|'x' if n is odd else 'y'|n is odd is even
n is number == true|[n is odd, x is float]|n + 1 is even|-n is odd|s | length is even|(s | length) is even|n is not not defined|nothing is none|nothing is not none
""",
    "globals": r"""
dict(a=1)|dict(d, b=2)|dict([('a', 1), ('b', 2)])|dict()|dict(1)|dict([(1,)])|dict({'a': 1}, a=2).a|namespace(a=1).a|namespace({'a': 1}).a|namespace().q
namespace(a=[1], b='x')|raise_exception('boom')|raise_exception()|strftime_now('%Y-%m-%d')|strftime_now('%d %b %Y')|strftime_now('%H:%M:%S')|strftime_now('%A, %B %d')
strftime_now('%j %U %p %I %y %%')|strftime_now('%-d/%-m')|strftime_now('')|strftime_now('no percent')|strftime_now('%Z-%z')|cycler(1, 2).next()|cycler()|joiner()()
cycler('a', 'b').current|joiner('; ') is callable|nosuch()|n()|s.upper.x|dict(**d)|dict(**{'a': 1})|dict(a=1, **{'a': 2})|dict(*[[('k', 'v')]])|s.split(*[','])
""",
}

TEMPLATES = {
    "if": ["{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}",
           "{% if missing %}a{% elif nest.q %}b{% elif 0 %}c{% endif %}.",
           "{% if not missing and (n or x) %}y{% endif %}", "{% if n is odd %}{% if x %}xy{% endif %}{% endif %}",
           "{% if nums, %}tuple{% endif %}", "{% if %}{% endif %}", "{% if n %}", "{% endif %}", "{% else %}"],
    "for": ["{% for i in nums %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}",
            "{% for i in nums if i > 1 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}",
            "{% for i in nums if i > 99 %}x{% else %}none{% endfor %}",
            "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
            "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for c in 'añ🎉' %}[{{ c }}]{% endfor %}",
            "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
            "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}",
            "{% for i in n %}{% endfor %}", "{% for i in missing %}x{% else %}e{% endfor %}", "{% for i in none %}{% endfor %}",
            "{% for i in nums %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
            "{% for i in nums %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
            "{% for i in nums %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }} {% endfor %}",
            "{% for i in nums %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}", "{% for i in [1,1,2,2,1] %}{{ loop.changed(i) }} {% endfor %}",
            "{% for i in nums %}{{ loop.depth }}{% for j in [1] %}{{ loop.depth0 }}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
            "{% for i in nums | select('odd') %}{{ loop.last }}{{ i }} {% endfor %}", "{% for i in nums | select %}{{ loop.length }} {% endfor %}",
            "{% for i in nums | select('gt', 1) %}{{ loop.revindex }}{{ loop.nextitem }} {% endfor %}",
            "{% for i in nums %}{{ i }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}",
            "{% for i in nums %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "{% for i in [1] %}{% break %}{% else %}else{% endfor %}", "{% for i in [1, 2] %}{% continue %}{% else %}else{% endfor %}",
            "{% for i in [1, 2] %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}",
            "{% for i in [1, 2] %}{% for j in [1, 2] %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
            "{% for t in tree recursive %}{{ t.n }}{% if t.c %}({{ loop(t.c) }}){% endif %}{{ loop.depth }}{% endfor %}".replace("tree", "[{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}, {'n': 4}]}, {'n': 5}]"),
            "{% for i in [1] %}{{ loop([1]) }}{% endfor %}", "{{ loop }}", "{% for i in nums %}{% set q = i %}{% endfor %}{{ q }}",
            "{% set q = 0 %}{% for i in nums %}{% set q = q + i %}{{ q }} {% endfor %}{{ q }}", "{% for loop in nums %}{% endfor %}",
            "{% for i in nums %}{{ i }}{% endfor %}{{ i }}", "{% set i = 9 %}{% for i in [1] %}{{ i }}{% endfor %}{{ i }}",
            "{% for i in [1, 2] %}{% set x = x + 1 %}{{ x }} {% endfor %}", "{% break %}", "{% for i in range(3) %}{{ loop.length - i }}{% endfor %}",
            "{% for x in [1, 2, 3] if x is odd %}{{ loop.previtem }}{{ x }}{{ loop.last }} {% endfor %}",
            "{% for i in nums[:] %}{{ i }}{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}{% for i in 1, 2 %}{{ i }}{% endfor %}",
            "{% set g = nums | select %}{% for i in g %}{{ i }}{% endfor %}|{% for i in g %}{{ i }}{% endfor %}",
            "{% set ns = namespace(stop=false) %}{% for i in nums if not ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
            "{% for i in nums %}{{ loop }}{% endfor %}", "{% for i in [0, 1] %}{{ nums[loop.index0] }}{% endfor %}",
            "{% for m in people %}{% if loop.first %}^{% endif %}{{ m.name }}{% if not loop.last %}, {% else %}.{% endif %}{% endfor %}"],
    "set": ["{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = [1, 2] %}{{ a }}",
            "{% set a %}x{{ n }}y{% endset %}{{ a }}{{ a | length }}", "{% set a | upper %}abc{% endset %}{{ a }}",
            "{% set a | replace('b', 'q') | upper %}abc{% endset %}{{ a }}", "{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{% set ns.b = 'x' %}{{ ns.a }}{{ ns.b }}",
            "{% set d.a = 1 %}", "{% set missing.a = 1 %}", "{% set 1 = 2 %}", "{% set a.b.c = 1 %}", "{% set true = 1 %}", "{% set a = %}", "{% set a, b = 1 %}",
            "{% if n %}{% set a = 1 %}{% endif %}{{ a }}", "{% if not n %}{% set a = 1 %}{% endif %}{{ a }}", "{% set n = n + 1 %}{{ n }}",
            "{% set a %}{% set b = 1 %}{{ b }}{% endset %}{{ a }}{{ b }}", "{% set ns = namespace() %}{% for i in nums %}{% set ns.last = i %}{% endfor %}{{ ns.last }}",
            "{% set ns = namespace(t='') %}{% for i in nums %}{% set ns.t = ns.t ~ i ~ ',' %}{% endfor %}{{ ns.t }}",
            "{% set ns.x %}a{% endset %}", "{% set ns = namespace() %}{% set ns.x %}abc{% endset %}{{ ns.x }}", "{% set a = namespace(x=1) %}{{ a }}",
            "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}",
            "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}", "{% filter nosuch %}a{% endfilter %}",
            "{% filter indent(2) %}a\nb{% endfilter %}", "{% print n, s %}", "{% set x %}{% for i in nums %}{{ i }}{% endfor %}{% endset %}{{ x }}"],
    "macro": ["{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(b=5, a=4) }}|{{ m() }}",
              "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=1) }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
              "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}",
              "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}",
              "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% call n() %}{% endcall %}", "{% call n %}{% endcall %}",
              "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m }}",
              "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}", "{% set y = 5 %}{% macro m() %}{{ y }}{% set y = 6 %}{{ y }}{% endmacro %}{{ m() }}{{ y }}",
              "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
              "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m.name }}",
              "{% macro m(xs) %}{% for x in xs %}{{ x }}{% endfor %}{% endmacro %}{{ m([1, 2]) | upper }}{{ m('ab') | length }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ [1, 2] | map('string') | map('upper') | list }}{{ m(*[1]) }}{{ m(**{'x': 2}) }}",
              "{% macro a(x) %}<{{ x }}>{% endmacro %}{% macro b(x) %}{{ a(x) }}{{ a(x ~ x) }}{% endmacro %}{{ b('q') }}", "{% macro m(n) %}{{ n }}{% endmacro %}{{ m(n=1) }}{{ n }}",
              "{% macro m() %}{% for i in nums %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{{ m() }}", "{% for i in nums %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
              "{% macro out(caller) %}{{ caller }}{% endmacro %}{{ out(1) }}", "{% macro m(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ m('a', y=none) }}", "{% macro m(x) -%}  {{ x }}  {%- endmacro %}[{{ m(1) }}]"],
    "whitespace": ["a\n{% if n %}\nb\n{% endif %}\nc", "a\n  {% if n %}\n  b\n  {% endif %}\nc", "a {%- if n -%} b {%- endif -%} c", "a\n{%+ if n +%}\nb{% endif %}", "  {%+ if n %}x{% endif %}",
                   "{{ n }}\n{{ n }}\n", "{{- n -}}  \n x", "  {{ n }}", "a  {#- c -#}  b", "a\n{# c #}\nb", "  {# c #}\nb", "a\n\n", "a\n", "\n", "", "{% raw %}{{ x }}{% y %}{% endraw %}", "  {% raw %}\n a {% endraw %}\n b",
                   "a {%- raw -%}  x  {%- endraw -%} b", "{% raw %}a\n  {% endraw %}\nb", "a\r\nb\r{% if n %}\r\nc{% endif %}", "{% set a = 1 %}\n{% set b = 2 %}\n{{ a }}", "{% set a = 1 %}   \n x", "x{% set a = 1 %}\n\ny",
                   "\t {% if n %}\t\n x {% endif %}", "a\n   {%- if n %}\n   b\n   {%- endif %}\n", "{#- a -#}\n{#+ b +#}\nc", "{{ '{{ not code }}' }}{{ '%}' }}", "a{% if n %}  {% endif %}b", "a\n\n  {%- set q = 1 -%}\n\n  b",
                   "{% for i in nums -%}\n  {{ i }}\n{%- endfor %}", "{% for i in nums %}\n  {{ i }}\n{% endfor %}\n", "{ % x % } { { } } {", "{{ n }}}", "{{ {'a': {'b': 1}} }}", "{{ {'a': 1}['a'] }}{%if n%}x{%endif%}{{n}}",
                   "{% if n %}a{% else %}\n b{% endif %}\n", "\u00a0{%- if n %}x{% endif %}", "a\u2003{% if n -%}\u2003\u00a0x{% endif %}", "{% generation %}\nx\n{% endgeneration %}\ny", "{#\n multi\n line #}\nx", "{{ s }}{# {{ x }} #}{{ n }}"],
    "errors": ["{{", "{{ n", "{% if", "{{ n }", "{{ (n }}", "{{ n) }}", "{{ [1, 2 }}", "{{ 'abc }}", "{% nosuch %}", "{{ n n }}", "{{ n..x }}", "{{ 1 + }}", "{{ * 2 }}", "{{ n | }}", "{{ n is }}", "{{ n ! x }}", "{{ @ }}", "{{ 1 if }}",
               "{% for %}{% endfor %}", "{% for i nums %}{% endfor %}", "{% for i in nums %}", "{% endfor %}", "{% macro %}{% endmacro %}", "{% macro 1() %}{% endmacro %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}",
               "{% if n %}{% endfor %}", "{# open", "{% raw %} open", "{{ n, }}", "{{ }}", "{{ f(a=1, 2) }}", "{{ f(**a, b) }}", "{{ {1} }}", "{{ [1 2] }}", "{{ n.1.2.x }}", "{{ 'a' 1 }}", "{{ n | nosuch }}", "{{ n | default(b=1) }}", "{{ missing() }}",
               "{{ n.upper() }}", "{{ 1 is divisibleby }}", "{{ n | upper(1) }}", "{{ s | join(1, 2, 3) }}", "{{ range(1, 2, 3, 4) }}", "{{ n | round('x') }}", "{% set %}", "{% call %}{% endcall %}", "{% generation %}", "{% endgeneration %}", "{{ a b }}", "{{ not }}", "{{ n not 1 }}"],
    "generation": ["a{% generation %}b{{ n }}{% endgeneration %}c", "{% for i in nums %}{% generation %}{{ i }}{% endgeneration %};{% endfor %}", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}",
                   "{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}{{ m() | upper }}"],
}
