// Helpers of generated kernels: vectors, elementwise functions, prefetching.
// Vectors are those of GCC and Clang; a row is cut into vectors of exactly fitting sizes.
#include <stdint.h>
#if !defined(__x86_64__)
#include <fenv.h>
#endif

extern "C" int omp_get_thread_num(void);

namespace {

typedef float v2 __attribute__((vector_size(8)));
typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
// Functions that run a block: two inlined copies might round differently.
#define NOINLINE static __attribute__((noinline))
#define EXPORT extern "C" __attribute__((visibility("default")))

// Of a vector V: as many integers (Int), half as many lanes (Half), and their number.
template <class V> struct Lanes;
template <> struct Lanes<float> {
    typedef int32_t Int;
    static constexpr int count = 1;
};
template <> struct Lanes<v2> {
    typedef int32_t Int __attribute__((vector_size(8)));
    typedef float Half;
    static constexpr int count = 2;
};
template <> struct Lanes<v4> {
    typedef int32_t Int __attribute__((vector_size(16)));
    typedef v2 Half;
    static constexpr int count = 4;
};
template <> struct Lanes<v8> {
    typedef int32_t Int __attribute__((vector_size(32)));
    typedef v4 Half;
    static constexpr int count = 8;
};
template <> struct Lanes<v16> {
    typedef int32_t Int __attribute__((vector_size(64)));
    typedef v8 Half;
    static constexpr int count = 16;
};

constexpr float infinity = __builtin_inff();

// memcpy carries neither alignment nor type: it becomes one unaligned move.
template <class V> INLINE V load(const float* from) {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

template <class V> INLINE void store(float* to, V value) {
    __builtin_memcpy(to, &value, sizeof value);
}

// A bfloat16 of a row. Rows hold 32 elements at a time, in 16 words: element i of them is the low
// half of word i, element i + 16 its high half. So a load brings two vectors, and none is unpacked.
struct bf16 {
    uint16_t bits;
};
constexpr uint32_t high_half_mask = 0xffff0000u;
template <class T> INLINE T* word_of(T* row, int column) {
    return row + column / 32 * 32 + column % 16 * 2;
}

template <class V> INLINE V load(const bf16* row, int column) {
    typedef uint32_t Words __attribute__((vector_size(sizeof(V))));
    Words words;
    __builtin_memcpy(&words, word_of(row, column), sizeof words);
    words = column & 16 ? words & high_half_mask : words << 16;
    V value;
    __builtin_memcpy(&value, &words, sizeof value);
    return value;
}

// The bits of the nearest bfloat16, of two the even one, in the high half of each word, and something
// in the low one. What is no number stays none.
template <class Words, class V> INLINE Words rounded_bits(V value) {
    typedef int32_t Mask __attribute__((vector_size(sizeof(V))));
    Words bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const Mask is_no_number = (bits & 0x7fffffffu) > 0x7f800000u;
    return is_no_number ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
}
template <class V> INLINE void store(bf16* row, int column, V value) {
    typedef uint32_t Words __attribute__((vector_size(sizeof(V))));
    Words words;
    __builtin_memcpy(&words, word_of(row, column), sizeof words);
    const Words bits = rounded_bits<Words>(value);
    words = column & 16 ? (words & ~high_half_mask) | (bits & high_half_mask)
                        : (words & high_half_mask) | bits >> 16;
    __builtin_memcpy(word_of(row, column), &words, sizeof words);
}
// At a column that is a multiple of 32 or some after one, and 16 after that.
template <class V> INLINE void store(bf16* row, int column, V low, V high) {
    typedef uint32_t Words __attribute__((vector_size(sizeof(V))));
    const Words words =
        (rounded_bits<Words>(high) & high_half_mask) | rounded_bits<Words>(low) >> 16;
    __builtin_memcpy(word_of(row, column), &words, sizeof words);
}

template <class V> INLINE V splat(float value) { return V{} + value; }
template <> inline __attribute__((always_inline)) float splat<float>(float value) { return value; }

template <int WIDTH> INLINE void prefetch_row(const float* row) {
#pragma GCC unroll 8
    for (int i = 0; i < WIDTH && i < 128; i += 16) {
        __builtin_prefetch(row + i);
    }
}

template <int WIDTH> INLINE void prefetch_row(const bf16* row) {
#pragma GCC unroll 8
    for (int i = 0; i < WIDTH && i < 256; i += 32) {
        __builtin_prefetch(row + i);
    }
}

// The same for a row that is to be written.
template <int WIDTH> INLINE void expect_row(float* row) {
#pragma GCC unroll 8
    for (int i = 0; i < WIDTH && i < 128; i += 16) {
        __builtin_prefetch(row + i, 1);
    }
}

template <class V> INLINE V maximum(V a, V b) { return a > b ? a : b; }
template <class V> INLINE V minimum(V a, V b) { return a < b ? a : b; }

INLINE float low_half(v2 v) { return v[0]; }
INLINE v2 low_half(v4 v) { return __builtin_shufflevector(v, v, 0, 1); }
INLINE v4 low_half(v8 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
INLINE v8 low_half(v16 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
INLINE float high_half(v2 v) { return v[1]; }
INLINE v2 high_half(v4 v) { return __builtin_shufflevector(v, v, 2, 3); }
INLINE v4 high_half(v8 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
INLINE v8 high_half(v16 v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }
INLINE v2 join(float a, float b) { return v2{a, b}; }
INLINE v4 join(v2 a, v2 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3); }
INLINE v8 join(v4 a, v4 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
INLINE v16 join(v8 a, v8 b) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Halves added (or compared) until R is left: sums over all groups of R's lanes.
template <class R, class V> INLINE R fold_sum(V v) {
    if constexpr (Lanes<V>::count == Lanes<R>::count) return v;
    else return fold_sum<R>(low_half(v) + high_half(v));
}
template <class R, class V> INLINE R fold_max(V v) {
    if constexpr (Lanes<V>::count == Lanes<R>::count) return v;
    else return fold_max<R>(maximum(low_half(v), high_half(v)));
}
template <class V> INLINE float hsum(V v) { return fold_sum<float>(v); }

// R repeated until it fills V.
template <class V, class R> INLINE V repeat(R row) {
    if constexpr (Lanes<R>::count == 1) {
        return splat<V>(row);
    } else if constexpr (Lanes<V>::count == Lanes<R>::count) {
        return row;
    } else {
        const auto half = repeat<typename Lanes<V>::Half>(row);
        return join(half, half);
    }
}

// Rows of WIDTH floats side by side: those that `index` names, as many as V holds.
template <class V, int WIDTH> INLINE V gather(const float* rows, const int32_t* index) {
    if constexpr (Lanes<V>::count == WIDTH) {
        return load<V>(rows + int64_t(index[0]) * WIDTH);
    } else if constexpr (WIDTH == 1 && Lanes<V>::count == 4) {
        return v4{rows[index[0]], rows[index[1]], rows[index[2]], rows[index[3]]};
    } else {
        typedef typename Lanes<V>::Half Half;
        constexpr int half = Lanes<Half>::count / WIDTH;
        return join(gather<Half, WIDTH>(rows, index), gather<Half, WIDTH>(rows, index + half));
    }
}

// The same, by way of a second array.
template <class V, int WIDTH>
INLINE V gather(const float* rows, const int32_t* row_of, const int32_t* index) {
    constexpr int count = Lanes<V>::count / WIDTH;
    int32_t found[count];
    for (int i = 0; i < count; ++i) found[i] = row_of[index[i]];
    return gather<V, WIDTH>(rows, found);
}

template <class V, int WIDTH> INLINE void scatter(float* rows, const int32_t* index, V value) {
    if constexpr (Lanes<V>::count == WIDTH) {
        store(rows + int64_t(index[0]) * WIDTH, value);
    } else {
        constexpr int half = Lanes<V>::count / WIDTH / 2;
        scatter<typename Lanes<V>::Half, WIDTH>(rows, index, low_half(value));
        scatter<typename Lanes<V>::Half, WIDTH>(rows, index + half, high_half(value));
    }
}

// Full vectors have a sum of their own (wide); what is left goes to the row's.
template <class W, class R, class V> INLINE void add_lanes(W& wide, R& row, V value) {
    if constexpr (Lanes<V>::count == Lanes<W>::count) wide += value;
    else row += fold_sum<R>(value);
}
template <class W, class R, class V> INLINE void max_lanes(W& wide, R& row, V value) {
    if constexpr (Lanes<V>::count == Lanes<W>::count) wide = maximum(wide, value);
    else row = maximum(row, fold_max<R>(value));
}

// Of as many vectors as a vector has lanes the sum of each, in their order. Halves are added as in
// hsum, those of two vectors at once; most shuffles stay within 128 bits.
#define SHUFFLE __builtin_shufflevector
INLINE v4 fold_twos(v4 a, v4 b) { return SHUFFLE(a, b, 0, 1, 4, 5) + SHUFFLE(a, b, 2, 3, 6, 7); }
INLINE v4 fold_ones(v4 a, v4 b) { return SHUFFLE(a, b, 0, 2, 4, 6) + SHUFFLE(a, b, 1, 3, 5, 7); }
INLINE v8 fold_twos(v8 a, v8 b) {
    return SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
INLINE v8 fold_ones(v8 a, v8 b) {
    return SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}
INLINE v16 fold_twos(v16 a, v16 b) {
    return SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
INLINE v16 fold_ones(v16 a, v16 b) {
    return SHUFFLE(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
           SHUFFLE(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
// Four lanes each of every fourth vector, from the first on.
INLINE v4 fold_fours(const v4* rows) { return rows[0]; }
INLINE v8 fold_fours(const v8* rows) {
    const v8 a = rows[0], b = rows[4];
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
INLINE v16 fold_eights(v16 a, v16 b) {
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
INLINE v16 fold_fours(const v16* rows) {
    const v16 a = fold_eights(rows[0], rows[4]), b = fold_eights(rows[8], rows[12]);
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
template <class V> INLINE V fold_rows(const V* rows) {
    const V first = fold_twos(fold_fours(rows), fold_fours(rows + 1));
    return fold_ones(first, fold_twos(fold_fours(rows + 2), fold_fours(rows + 3)));
}

// Rows of WIDTH floats side by side: row(i) for each i.
template <class V, int WIDTH, class Row> INLINE V lanes_of(Row row, int i = 0) {
    if constexpr (Lanes<V>::count == WIDTH) {
        return row(i);
    } else {
        typedef typename Lanes<V>::Half Half;
        constexpr int half = Lanes<Half>::count / WIDTH;
        return join(lanes_of<Half, WIDTH>(row, i), lanes_of<Half, WIDTH>(row, i + half));
    }
}

// A score whose exponential neither outgrows a float nor loses digits in sums of many.
constexpr float most_moderate = 40.0f;
template <class V> INLINE bool are_moderate(V x) {
    const auto inside = (x <= most_moderate) & (x >= -most_moderate);
    return hsum(inside ? V{} : splat<V>(1.0f)) == 0.0f;
}

// So many terms are added up as floats. A float that has grown large loses the digits of what it
// adds: of longer ranges each part has a sum of its own, and the parts are added up as doubles.
constexpr int32_t part_rows = 512;

// Not inlined, so that the doubles stay in memory and leave the registers to the loop.
template <class V> NOINLINE void add_part(double* whole, V part) {
    float values[Lanes<V>::count];
    store(values, part);
    for (int i = 0; i < Lanes<V>::count; ++i) whole[i] += values[i];
}
template <class V> NOINLINE V rounded(const double* whole) {
    float values[Lanes<V>::count];
    for (int i = 0; i < Lanes<V>::count; ++i) values[i] = float(whole[i]);
    return load<V>(values);
}

// Calls loop(begin, end) for each part of a range. The sums that it adds to begin anew; what they
// were before is added last, which costs nothing where they have just begun.
template <class Loop, class... V>
INLINE void in_parts(int32_t begin, int32_t end, Loop loop, V&... sums) {
    const auto finish = [... before = sums](V&... found) INLINE_LAMBDA {
        ((found = before + found), ...);
    };
    ((sums = V{}), ...);
    if (end - begin <= part_rows) [[likely]] {
        loop(begin, end);
        return finish(sums...);
    }
    double whole[(Lanes<V>::count + ...)] = {};
    for (int32_t from = begin;; from += part_rows) {
        const bool is_last = end - from <= part_rows;
        loop(from, is_last ? end : from + part_rows);
        double* next = whole;
        ((add_part(next, sums), next += Lanes<V>::count, sums = V{}), ...);
        if (is_last) break;
    }
    const double* next = whole;
    ((sums = rounded<V>(next), next += Lanes<V>::count), ...);
    finish(sums...);
}

// The processor notes in each thread, at no cost, whether a number outgrew a float. The compiler does
// not know that these read and write what arithmetic does: they stand where memory was written.
INLINE void forget_overflow() {
    __asm__ volatile("" ::: "memory");
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x8u);
#else
    feclearexcept(FE_OVERFLOW);
#endif
}
INLINE bool has_overflowed() {
    __asm__ volatile("" ::: "memory");
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & 0x8u;
#else
    return fetestexcept(FE_OVERFLOW);
#endif
}

// Turns that are left, on a cache line of their own.
struct alignas(64) Share {
    int64_t next, end;
};
template <class Run> INLINE void take(Share& share, Run& run) {
    for (;;) {
        const int64_t turn = __atomic_fetch_add(&share.next, 1, __ATOMIC_RELAXED);
        if (turn >= share.end) return;
        run(turn);
    }
}

// Calls run(turn) once for each turn. The first few, which are urgent, are begun before all others.
// Of the rest each thread has consecutive ones to begin with, in every launch the same, so that
// it finds rows in its own cache; when it is done it helps the others.
// Returns whether a number outgrew a float in one of them.
template <class Run> INLINE bool in_turns(int64_t turns, int64_t urgent, int threads, Run run) {
    if (threads == 1 || turns <= 1) {
        forget_overflow();
        for (int64_t turn = 0; turn < turns; ++turn) run(turn);
        return has_overflowed();
    }
    constexpr int most = 64;
    const int shares = threads < most ? threads : most;
    const auto begin = [&](int i) { return urgent + (turns - urgent) * i / shares; };
    Share first = {0, urgent}, own[most];
    for (int i = 0; i < shares; ++i) own[i] = {begin(i), begin(i + 1)};
    bool overflowed = false;
#pragma omp parallel num_threads(threads)
    {
        forget_overflow();
        take(first, run);
        const int me = omp_get_thread_num();
        for (int i = 0; i < shares; ++i) take(own[(me + i) % shares], run);
        if (has_overflowed()) __atomic_store_n(&overflowed, true, __ATOMIC_RELAXED);
    }
    return overflowed;
}

// Calls step(V{}, e) for as many edges as V holds rows of WIDTH, then for half as many, ...
template <class V, int WIDTH, class Step>
INLINE void across_edges(int32_t e, int32_t end, Step step) {
    constexpr int count = Lanes<V>::count / WIDTH;
    for (; e + count <= end; e += count) step(V{}, e);
    if constexpr (count > 1) across_edges<typename Lanes<V>::Half, WIDTH>(e, end, step);
}
// In this order the maximum of what is no number and 0 is no number, as torch has it.
template <class V> INLINE V relu(V x) { return maximum(V{}, x); }
template <class V> INLINE V leaky_relu(V x, float slope) { return x > V{} ? x : x * slope; }
template <class V> INLINE V magnitude(V x) { return x < V{} ? -x : x; }

// A (K, N) matrix per head, with its columns made contiguous.
template <int HEADS, int K, int N> INLINE void transpose(const float* w, float* columns) {
    for (int h = 0; h < HEADS; ++h) {
        for (int k = 0; k < K; ++k) {
            for (int j = 0; j < N; ++j) {
                columns[(h * N + j) * K + k] = w[(h * K + k) * N + j];
            }
        }
    }
}

// e^x within 2 ulp: x = n ln 2 + r, a polynomial in r (Cephes), and 2^n in two halves, for n
// may lie outside of an exponent's range. 0 below the smallest denormal, also for -infinity.
template <class V> INLINE V exp(V x) {
    typedef typename Lanes<V>::Int Int;
    const V low = splat<V>(-104.0f), high = splat<V>(89.0f);
    const V inside = minimum(maximum(x, low), high);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const V magic = splat<V>(12582912.0f);
    const V shifted = inside * 1.44269504088896341f + magic;
    const V n = shifted - magic;
    V r = inside - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    V p = splat<V>(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    Int bits, half_bits, rest_bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    const Int exponent = bits - 0x4B400000;
    const Int half = exponent >> 1;
    half_bits = (half + 127) << 23;
    rest_bits = (exponent - half + 127) << 23;
    V first, second;
    __builtin_memcpy(&first, &half_bits, sizeof first);
    __builtin_memcpy(&second, &rest_bits, sizeof second);
    const V value = p * first * second;
    return x < low ? V{} : x != x ? x : value;
}

template <class V> INLINE V sigmoid(V x) { return 1.0f / (1.0f + exp(-x)); }

// A polynomial near 0 (Cephes), where 1 - e^-2x would cancel.
template <class V> INLINE V tanh(V x) {
    const V z = x * x;
    V p = splat<V>(-5.70498872745e-3f);
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const V near = p * z * x + x;
    const V decay = exp(-2.0f * magnitude(x));
    const V far = (1.0f - decay) / (1.0f + decay);
    return magnitude(x) < splat<V>(0.625f) ? near : (x < V{} ? -far : far);
}

// x times the normal distribution function, by erf (Abramowitz and Stegun 7.1.28, |error| < 3e-7):
// 1 - erf(z) = 1 / (a polynomial in z) ^ 16, which needs no exponential.
template <class V> INLINE V gelu(V x) {
    const V z = magnitude(x) * 0.70710678118654752f;
    V p = splat<V>(0.0000430638f);
    p = p * z + 0.0002765672f;
    p = p * z + 0.0001520143f;
    p = p * z + 0.0092705272f;
    p = p * z + 0.0422820123f;
    p = p * z + 0.0705230784f;
    p = p * z + 1.0f;
    V tail = 1.0f / p;
    tail = tail * tail;
    tail = tail * tail;
    tail = tail * tail;
    tail = 0.5f * tail * tail;
    return x * (x < V{} ? tail : 1.0f - tail);
}

}  // namespace
