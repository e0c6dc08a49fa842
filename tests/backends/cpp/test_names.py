"""Names that C++ or the prelude has for itself are a layer's to give."""

from hetune.variants.kernel.parse import parse

WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue
    co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq INLINE INLINE_LAMBDA NOINLINE EXPORT NULL Context int32_t int64_t
    load store relu exp gather Lanes V""".split()  # noqa: SIM905


def test_words_of_the_language_are_names(check):
    lines = ["launch", *(f"  buffer {word}: node[]" for word in WORDS), "  buffer y: node[]"]
    lines += ["  traverse node", "    init total: [] sum"]
    for word in WORDS:
        lines += [f"    {word}: [] = read {word}", f"    update total {word}"]
    check(parse("\n".join([*lines, "    store y = total"])))
