// More elementwise functions of generated kernels; what is no number stays so.

namespace {

template <class V> INLINE V larger(V a, V b) { return a != a ? a : maximum(a, b); }
template <class V> INLINE V smaller(V a, V b) { return a != a ? a : minimum(a, b); }
template <class V> INLINE float hlargest(V v) {
    if constexpr (Lanes<V>::count == 1) return v;
    else return hlargest(larger(low_half(v), high_half(v)));
}
template <class V> INLINE float hsmallest(V v) {
    if constexpr (Lanes<V>::count == 1) return v;
    else return hsmallest(smaller(low_half(v), high_half(v)));
}
template <class V> INLINE V clamp_min(V x, float least) { return maximum(splat<V>(least), x); }
template <class V> INLINE V clamp_max(V x, float most) { return minimum(splat<V>(most), x); }
template <class V> INLINE V mask(V x, V y) { return x > V{} ? y : V{}; }

// f of each lane: what the compiler does not make a vector of is called lane by lane.
template <class V, class F, class... Vs> INLINE V each_lane(F f, V x, Vs... more) {
    constexpr int count = Lanes<V>::count;
    float values[1 + sizeof...(more)][count];
    int argument = 0;
    store(values[argument], x);
    (store(values[++argument], more), ...);
    for (int i = 0; i < count; ++i) {
        if constexpr (sizeof...(more)) values[0][i] = f(values[0][i], values[1][i]);
        else values[0][i] = f(values[0][i]);
    }
    return load<V>(values[0]);
}

template <class V> INLINE V square(V x) { return x * x; }
template <class V> INLINE V step(V x) { return x > V{} ? splat<V>(1.0f) : V{}; }
template <class V> INLINE V sqrt(V x) {
    return each_lane([](float lane) INLINE_LAMBDA { return __builtin_sqrtf(lane); }, x);
}
template <class V> INLINE V rsqrt(V x) { return 1.0f / sqrt(x); }
template <class V> INLINE V rsqrt0(V x) { return x <= V{} ? V{} : rsqrt(x); }
template <class V> INLINE V sin(V x) {
    return each_lane([](float lane) INLINE_LAMBDA { return __builtin_sinf(lane); }, x);
}
template <class V> INLINE V cos(V x) {
    return each_lane([](float lane) INLINE_LAMBDA { return __builtin_cosf(lane); }, x);
}
template <class V> INLINE V pow(V x, V y) {
    return each_lane(
        [](float base, float exponent) INLINE_LAMBDA { return __builtin_powf(base, exponent); }, x, y);
}
// Of the exponents that norms are made of, the compiler makes products and square roots.
template <class V> INLINE V pow_c(V x, float exponent) {
    if (exponent == 0.5f) return sqrt(x);
    if (exponent == -0.5f) return rsqrt(x);
    if (exponent == 2.0f) return x * x;
    if (exponent == 3.0f) return x * x * x;
    if (exponent == -1.0f) return 1.0f / x;
    return pow(x, splat<V>(exponent));
}

// Within 2 ulp: x = 2^n m with m between the roots of 1/2 and 2, and a polynomial in m - 1 (Cephes).
template <class V> INLINE V log(V x) {
    typedef typename Lanes<V>::Int Int;
    const auto is_denormal = x < splat<V>(1.17549435e-38f);
    const V normal = is_denormal ? x * 8388608.0f : x;
    Int bits;
    __builtin_memcpy(&bits, &normal, sizeof bits);
    const Int exponent = (bits - 0x3F3504F3) >> 23;
    const Int rest_bits = bits - (exponent << 23), shifted_bits = exponent + 0x4B400000;
    V rest, shifted;
    __builtin_memcpy(&rest, &rest_bits, sizeof rest);
    __builtin_memcpy(&shifted, &shifted_bits, sizeof shifted);
    const V n = shifted - 12582912.0f - (is_denormal ? splat<V>(23.0f) : V{});
    const V r = rest - 1.0f, z = r * r;
    V p = splat<V>(7.0376836292e-2f);
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    const V tail = p * r * z + n * -2.12194440e-4f - 0.5f * z;
    const V value = r + tail + n * 0.693359375f;
    const V edge = x == V{} ? splat<V>(-infinity) : splat<V>(__builtin_nanf(""));
    return x > V{} ? (x < splat<V>(infinity) ? value : x) : edge;
}

// log(1 + e^-|x|), where 1 + e^-|x| rounds, is corrected for it.
template <class V> INLINE V softplus(V x) {
    const V power = exp(-magnitude(x)), sum = 1.0f + power, rounded = sum - 1.0f;
    const V rest = rounded == V{} ? power : log(sum) * power / rounded;
    return maximum(V{}, x) + rest;
}

template <class V> INLINE V silu(V x) {
    const V power = exp(-magnitude(x));
    return x * ((x < V{} ? power : splat<V>(1.0f)) / (1.0f + power));
}

// Near 0 the polynomial of exp without its 1, where e^x - 1 would cancel.
template <class V> INLINE V elu(V x, float alpha) {
    const V negative = minimum(V{}, x);
    V p = splat<V>(1.9875691500e-4f);
    p = p * negative + 1.3981999507e-3f;
    p = p * negative + 8.3334519073e-3f;
    p = p * negative + 4.1665795894e-2f;
    p = p * negative + 1.6666665459e-1f;
    p = p * negative + 5.0000001201e-1f;
    const V near = p * negative * negative + negative;
    const V below = negative > splat<V>(-0.34f) ? near : exp(negative) - 1.0f;
    return x > V{} ? x : alpha * below;
}

}  // namespace
