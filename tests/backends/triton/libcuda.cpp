// Stands for libcuda: notes what it is called with, and leaves kernels to whoever listens.

#include <atomic>
#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

static thread_local void* current = nullptr;
static int (*listener)(void*, const uint32_t*, void*, void**) = nullptr;
static std::atomic<int64_t> asked{0}, entered{0};

EXPORT int cuCtxGetCurrent(void** context) {
    ++asked;
    *context = current;
    return 0;
}

EXPORT int cuCtxSetCurrent(void* context) {
    ++entered;
    current = context;
    return context == reinterpret_cast<void*>(0xBAD) ? 201 : 0;
}

EXPORT int cuGetErrorString(int status, const char** text) {
    *text = status == 201 ? "invalid device context" : "too many resources requested for launch";
    return 0;
}

EXPORT int cuLaunchKernel(void* function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                          uint32_t by, uint32_t bz, uint32_t shared, void* stream, void** parameters,
                          void** extra) {
    const uint32_t sizes[7] = {gx, gy, gz, bx, by, bz, shared};
    return extra || !current ? 1 : listener(function, sizes, stream, parameters);
}

EXPORT void listen(int (*to)(void*, const uint32_t*, void*, void**)) { listener = to; }
EXPORT int64_t times_asked() { return asked.exchange(0); }
EXPORT int64_t times_entered() { return entered.exchange(0); }
EXPORT void* enter(void* context) {
    void* before = current;
    current = context;
    return before;
}
