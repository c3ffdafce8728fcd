// A fake driver whose devices use host memory and do all work immediately. Programs are host libraries with emulated
// kernels; other kernels do nothing. It checks what the real driver checks: the calling thread's context, free memory,
// and what a capture may contain. It has no device unless a test adds some.

enum { CU_OK, CU_INVALID = 1, CU_MEMORY = 2, CU_NO_DEVICE = 100, CU_CONTEXT = 201, CU_HANDLE = 400,
    CU_NOT_FOUND = 500, CU_REGISTERED = 712, CU_LAUNCH = 719, CU_CAPTURED = 900, CU_INVALIDATED = 901,
    CU_ISOLATION = 905 };

static const int MAX_DEVICES = 2;
static const long PLENTY = LONG_MAX / 2;
static const long LOADED_BYTES = 1 << 20; // of a module, and of an instantiated graph

struct Context { int device; };
struct Stream;
struct Event { Context* context; };
struct Module { Context* context; void* library; std::string prefix; };
struct Function { Module* module; int (*launch)(const unsigned*, const char*); };
struct Grid { unsigned x, y, z, threads, ys, zs, shared_bytes; };
struct Node {
    std::function<void()> copy; // otherwise a kernel
    Function* function;
    Grid grid;
    std::vector<char> arguments;
};
struct Captured { std::vector<Node*> nodes; bool invalid = false; };
struct Stream { Context* context; Captured* capture; };
struct Executable { std::vector<Node*> nodes; std::vector<Node> copies; };
struct KernelParameters { Function* function; Grid grid; void** parameters; void** extra; };

static Context contexts[MAX_DEVICES];
static thread_local Context* current;
static std::mutex device_lock; // guards everything below
static int device_count;
static long memory_left = PLENTY;
static std::map<void*, long> memory;
static std::set<void*> registered; // host memory that devices copy directly
static std::set<Stream*> streams;
static std::map<std::string, long> things; // counts by kind, for fake_count
static std::string failing;
static int failure, failures;

API void fake_devices(int count) {
    std::lock_guard<std::mutex> guard(device_lock);
    device_count = count;
    memory_left = PLENTY;
    failures = 0;
}

// Limits the remaining memory.
API void fake_limit_memory(long bytes) {
    std::lock_guard<std::mutex> guard(device_lock);
    memory_left = bytes;
}

// Makes the next calls of a function fail.
API void fake_fail(const char* call, int error, int times) {
    std::lock_guard<std::mutex> guard(device_lock);
    failing = call;
    failure = error;
    failures = times;
}

// The number of existing objects for pinned, registered, events, graphs, executables, modules; of calls so far for
// launches and runs (of graphs).
API long fake_count(const char* kind) {
    std::lock_guard<std::mutex> guard(device_lock);
    return things[kind];
}

static int entered(const char* call, const Context* of) {
    if (failures > 0 && failing == call) {
        failures--;
        return failure;
    }
    return current == nullptr || of != nullptr && of != current ? CU_CONTEXT : CU_OK;
}

#define ENTER(of) \
    std::lock_guard<std::mutex> guard(device_lock); \
    if (int error = entered(__func__, of)) return error

static bool take(long bytes) {
    if (memory_left < bytes) {
        return false;
    }
    memory_left -= bytes;
    return true;
}

API int cuInit(unsigned) {
    std::lock_guard<std::mutex> guard(device_lock);
    return device_count > 0 ? CU_OK : CU_NO_DEVICE;
}

API int cuGetErrorString(int error, const char** text) {
    *text = error == CU_MEMORY ? "fake: out of memory" : error == CU_CONTEXT ? "fake: invalid device context"
            : error == CU_NO_DEVICE ? "fake: no device" : "fake";
    return CU_OK;
}

API int cuDeviceGetCount(int* count) { *count = device_count; return CU_OK; }

API int cuDeviceGet(int* device, int index) { *device = index; return index < device_count ? CU_OK : CU_INVALID; }

API int cuDeviceGetName(char* name, int size, int device) { snprintf(name, size, "fake %d", device); return CU_OK; }

API int cuDeviceGetAttribute(int* value, int attribute, int) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 4;
    return CU_OK;
}

API int cuDeviceGetPCIBusId(char* text, int size, int device) {
    snprintf(text, size, "0000:0%d:00.0", device);
    return CU_OK;
}

API int cuDriverGetVersion(int* version) { *version = 13020; return CU_OK; }

API int cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = 141L << 30; return CU_OK; }

API int cuDevicePrimaryCtxRetain(Context** context, int device) {
    contexts[device].device = device;
    *context = &contexts[device];
    return CU_OK;
}

API int cuCtxSetCurrent(Context* context) { current = context; return CU_OK; }

API int cuMemAlloc_v2(void** address, size_t bytes) {
    ENTER(nullptr);
    if (!take(bytes)) {
        return CU_MEMORY;
    }
    *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memory[*address] = bytes;
    return CU_OK;
}

API int cuMemFree_v2(void* address) {
    ENTER(nullptr);
    auto found = memory.find(address);
    REQUIRE(found != memory.end(), CU_INVALID);
    memory_left += found->second;
    memory.erase(found);
    free(address);
    return CU_OK;
}

API int cuMemGetInfo_v2(size_t* left, size_t* total) {
    ENTER(nullptr);
    *left = memory_left;
    *total = PLENTY;
    return CU_OK;
}

API int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
    ENTER(nullptr);
    if (!take(bytes)) {
        return CU_MEMORY;
    }
    *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
    things["pinned"]++;
    return CU_OK;
}

API int cuMemFreeHost(void* address) {
    ENTER(nullptr);
    things["pinned"]--;
    free(address);
    return CU_OK;
}

API int cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
    ENTER(nullptr);
    REQUIRE(address != nullptr && bytes > 0 && flags == 1, CU_INVALID); // for all contexts
    if (!registered.insert(address).second) {
        return CU_REGISTERED;
    }
    things["registered"]++;
    return CU_OK;
}

API int cuMemHostUnregister(void* address) {
    ENTER(nullptr);
    REQUIRE(registered.erase(address) == 1, CU_INVALID);
    things["registered"]--;
    return CU_OK;
}

API int cuStreamCreate(Stream** stream, unsigned) {
    ENTER(nullptr);
    *stream = new Stream {current, nullptr};
    streams.insert(*stream);
    return CU_OK;
}

API int cuStreamSynchronize(Stream* stream) {
    ENTER(stream->context);
    if (stream->capture != nullptr) {
        stream->capture->invalid = true;
        return CU_CAPTURED;
    }
    return CU_OK;
}

API int cuEventCreate(Event** event, unsigned) {
    ENTER(nullptr);
    things["events"]++;
    *event = new Event {current};
    return CU_OK;
}

API int cuEventDestroy_v2(Event* event) {
    ENTER(event->context);
    things["events"]--;
    delete event;
    return CU_OK;
}

API int cuEventRecord(Event* event, Stream* stream) {
    ENTER(event->context);
    return stream->context == event->context ? CU_OK : CU_HANDLE;
}

API int cuEventQuery(Event* event) { ENTER(event->context); return CU_OK; }

API int cuEventSynchronize(Event* event) { ENTER(event->context); return CU_OK; }

API int cuStreamWaitEvent(Stream* stream, Event*, unsigned) {
    ENTER(stream->context);
    if (stream->capture != nullptr) {
        stream->capture->invalid = true;
        return CU_ISOLATION;
    }
    return CU_OK;
}

static int run(const Node& node) {
    if (node.copy) {
        node.copy();
        return CU_OK;
    }
    things["launches"]++;
    const Grid& g = node.grid;
    unsigned dimensions[6] = {g.x, g.y, g.z, g.threads, 1, (unsigned) node.arguments.size()};
    // The offset of an argument depends on its alignment.
    alignas(16) char arguments[4096];
    memcpy(arguments, node.arguments.data(), node.arguments.size());
    return node.function->launch == nullptr || node.function->launch(dimensions, arguments) == 0 ? CU_OK
            : CU_LAUNCH;
}

// Captures work, or does it.
static int queue(Stream* stream, const Node& node) {
    if (stream->capture == nullptr) {
        return run(node);
    }
    if (stream->capture->invalid) {
        return CU_INVALIDATED;
    }
    stream->capture->nodes.push_back(new Node(node));
    return CU_OK;
}

// Captures the work of a library on a stream, or does it; returns whether the stream belongs to this driver.
static bool queued(void* stream, const std::function<int()>& work, int* status) {
    std::lock_guard<std::mutex> guard(device_lock);
    auto found = streams.find((Stream*) stream);
    if (found == streams.end()) {
        return false;
    }
    if ((*found)->context != current) {
        *status = refuse("a library is called in the context of its stream", CU_CONTEXT);
    } else if ((*found)->capture == nullptr) {
        *status = work();
    } else {
        *status = queue(*found, {[=] {
            if (work() != 0) {
                refuse("what a graph runs succeeds", CU_LAUNCH);
            }
        }});
    }
    return true;
}

static int copied(const char* call, void* to, const void* from, size_t bytes, Stream* stream) {
    std::lock_guard<std::mutex> guard(device_lock);
    if (int error = entered(call, stream->context)) {
        return error;
    }
    return queue(stream, {[=] { memcpy(to, from, bytes); }});
}

API int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t n, Stream* s) {
    return copied(__func__, to, from, n, s);
}

API int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t n, Stream* s) {
    return copied(__func__, to, from, n, s);
}

API int cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t n, Stream* s) {
    return copied(__func__, to, from, n, s);
}

API int cuMemsetD8Async(void* to, unsigned char value, size_t bytes, Stream* stream) {
    ENTER(stream->context);
    return queue(stream, {[=] { memset(to, value, bytes); }});
}

// Loads a program: the library that it contains, or null, and the prefix of its functions, which follows the library.
static Module* load(Context* context, const char* image) {
    if (memcmp(image, ELFMAG, SELFMAG) != 0) {
        return new Module {context, nullptr, ""};
    }
    const Elf64_Ehdr* header = (const Elf64_Ehdr*) image;
    size_t size = header->e_shoff + (size_t) header->e_shnum * header->e_shentsize;
    char name[] = "/tmp/starling-program-XXXXXX"; // a new name each time, or the loader would return an older library
    int file = mkstemp(name);
    void* opened = write(file, image, size) == (ssize_t) size ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    close(file);
    unlink(name);
    return new Module {context, opened, image + size};
}

API int cuModuleLoadData(Module** module, const void* image) {
    ENTER(nullptr);
    REQUIRE(image != nullptr, CU_INVALID);
    if (!take(LOADED_BYTES)) {
        return CU_MEMORY;
    }
    things["modules"]++;
    *module = load(current, (const char*) image);
    return CU_OK;
}

API int cuModuleGetFunction(Function** function, Module* module, const char* name) {
    ENTER(module->context);
    void* found = module->library == nullptr ? nullptr
            : dlsym(module->library, (module->prefix + name + "_launch").c_str());
    *function = new Function {module, (int (*)(const unsigned*, const char*)) found};
    return module->library != nullptr && found == nullptr ? CU_NOT_FOUND : CU_OK;
}

API int cuFuncLoad(Function* function) { ENTER(function->module->context); return CU_OK; }


static bool holds(const Grid& g) {
    return g.x > 0 && g.y > 0 && g.y < 65536 && g.z > 0 && g.z < 65536 && g.threads > 0 && g.threads <= 1024
            && g.ys == 1 && g.zs == 1 && g.shared_bytes <= 227 << 10;
}

static bool holds(void** extra) {
    return extra[0] == (void*) 1 && extra[1] != nullptr && extra[2] == (void*) 2 && *(size_t*) extra[3] <= 4096
            && extra[4] == nullptr;
}

static std::vector<char> arguments(void** extra) {
    const char* bytes = (const char*) extra[1];
    return std::vector<char>(bytes, bytes + *(size_t*) extra[3]);
}

API int cuLaunchKernel(Function* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ys,
        unsigned zs, unsigned shared_bytes, Stream* stream, void** parameters, void** extra) {
    ENTER(function->module->context);
    Grid grid {x, y, z, threads, ys, zs, shared_bytes};
    REQUIRE(stream->context == current, CU_HANDLE);
    REQUIRE(holds(grid) && parameters == nullptr && holds(extra), CU_INVALID);
    return queue(stream, {nullptr, function, grid, arguments(extra)});
}

API int cuStreamBeginCapture_v2(Stream* stream, int mode) {
    ENTER(stream->context);
    REQUIRE(mode == 2, CU_INVALID); // relaxed, since other threads continue
    if (stream->capture != nullptr) {
        return CU_INVALID;
    }
    stream->capture = new Captured;
    return CU_OK;
}

API int cuStreamGetCaptureInfo_v3(Stream* stream, int* status, uint64_t*, void*, Node*** before, void** edges,
        size_t* count) {
    ENTER(stream->context);
    if (edges == nullptr) {
        return 402; // every dependency counts as one with edge data
    }
    Captured* capture = stream->capture;
    *status = capture == nullptr ? 0 : capture->invalid ? 2 : 1;
    *count = capture == nullptr || capture->nodes.empty() ? 0 : 1;
    if (*count > 0) {
        *before = &capture->nodes.back();
    }
    return CU_OK;
}

API int cuStreamEndCapture(Stream* stream, Captured** graph) {
    std::lock_guard<std::mutex> guard(device_lock);
    Captured* taken = stream->capture;
    stream->capture = nullptr;
    *graph = nullptr;
    if (int error = taken == nullptr ? CU_INVALID : taken->invalid ? CU_INVALIDATED
            : entered(__func__, stream->context)) {
        delete taken;
        return error;
    }
    *graph = taken;
    things["graphs"]++;
    return CU_OK;
}

API int cuGraphInstantiateWithFlags(Executable** executable, Captured* graph, unsigned long long) {
    ENTER(nullptr);
    if (!take(LOADED_BYTES)) {
        return CU_MEMORY;
    }
    things["executables"]++;
    *executable = new Executable {graph->nodes};
    for (Node* node : graph->nodes) {
        (*executable)->copies.push_back(*node);
    }
    return CU_OK;
}

API int cuGraphExecKernelNodeSetParams_v2(Executable* executable, Node* node, const KernelParameters* to) {
    ENTER(nullptr);
    REQUIRE(to->parameters == nullptr && holds(to->grid) && holds(to->extra), CU_INVALID);
    for (size_t i = 0; i < executable->nodes.size(); i++) {
        if (executable->nodes[i] == node) {
            Node& copy = executable->copies[i];
            REQUIRE(to->function == node->function && arguments(to->extra).size() == copy.arguments.size()
                    && memcmp(&to->grid, &copy.grid, sizeof(Grid)) == 0, CU_INVALID);
            copy.arguments = arguments(to->extra);
            return CU_OK;
        }
    }
    return refuse("the graph has the node", CU_INVALID);
}

API int cuGraphLaunch(Executable* executable, Stream* stream) {
    ENTER(stream->context);
    things["runs"]++;
    for (const Node& node : executable->copies) {
        if (int error = run(node)) {
            return error;
        }
    }
    return CU_OK;
}

API int cuGraphExecDestroy(Executable* executable) {
    ENTER(nullptr);
    things["executables"]--;
    memory_left += LOADED_BYTES;
    delete executable;
    return CU_OK;
}

API int cuGraphDestroy(Captured* graph) {
    ENTER(nullptr);
    things["graphs"]--;
    for (Node* node : graph->nodes) {
        delete node;
    }
    delete graph;
    return CU_OK;
}
