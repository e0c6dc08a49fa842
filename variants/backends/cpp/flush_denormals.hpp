// Arithmetic of sums into types: gradients of saturated functions are full of numbers below a
// normal float, each of which takes processors a hundred cycles.

namespace {

// As long as it lives, such numbers are 0 in this thread. ARM's processors lose no time over them.
struct FlushDenormals {
#if defined(__x86_64__)
    static constexpr unsigned both = 0x8040;  // operands and results
    const unsigned before = __builtin_ia32_stmxcsr();
    FlushDenormals() { __builtin_ia32_ldmxcsr(before | both); }
    ~FlushDenormals() {
        __asm__ volatile("" ::: "memory");
        __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~both) | (before & both));
    }
#endif
};

}  // namespace
