// Fakes of NVIDIA's libraries, as far as Starling calls them, written from their documentation. They compute in host
// memory, only from the descriptors that they get. Calls that the real libraries would refuse, or for which they do not
// guarantee a correct result, are recorded as misuse. No NVIDIA headers are used: types and numbers are those of the
// binary interface.
#include <atomic>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <elf.h>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

static std::string misuse;
static std::atomic<long> computed;

// The first misuse, or an empty text.
API const char* fake_misuse() { return misuse.c_str(); }

// The number of operations computed.
API long fake_computed() { return computed; }

static int refuse(const char* what, int status) {
    if (misuse.empty()) {
        misuse = what;
    }
    return status;
}

#define REQUIRE(holds, status) if (!(holds)) return refuse(#holds, status)

enum { F32, F64, F16, BF16, SIZES };

static int size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

static double get(int type, const void* p, int64_t i) {
    switch (type) {
        case F64: return ((const double*) p)[i];
        case F32: return ((const float*) p)[i];
        case F16: return (float) ((const _Float16*) p)[i];
    }
    uint32_t bits = (uint32_t) ((const uint16_t*) p)[i] << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void put(int type, void* p, int64_t i, double value) {
    float f = (float) value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (type) {
        case F64: ((double*) p)[i] = value; break;
        case F32: ((float*) p)[i] = f; break;
        case F16: ((_Float16*) p)[i] = (_Float16) f; break;
        default: ((uint16_t*) p)[i] = f != f ? 0x7fc0 : (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static bool aligned(const void* p, uintptr_t bytes) { return p != nullptr && (uintptr_t) p % bytes == 0; }

// ---- the driver

namespace device {
#include "device.h"
}

// Runs a library's work on a stream, immediately or, if a driver's stream is being captured, at each run of the graph.
static int on(void* stream, const std::function<int()>& work) {
    int status;
    return device::queued(stream, work, &status) ? status : work();
}

// ---- cuBLASLt

#include "blas.h"

// ---- cuDNN

enum { DNN_OK, DNN_BAD = 2000, DNN_UNSUPPORTED = 3000 };

struct Dnn { void* stream; };
static std::atomic<size_t> cuda {13010};
static std::atomic<int> parts {DNN_OK};
static std::atomic<long> handles;

// Sets the CUDA version that cuDNN was built for, and the status that one of its components reports.
API void fake_build(size_t number, int status) { cuda = number; parts = status; }

// The number of existing handles.
API long fake_handles() { return handles; }

API const char* cudnnGetErrorString(int) { return "fake"; }

API void cudnnGetLastErrorString(char* text, size_t most) { snprintf(text, most, "the last error"); }

API int cudnnCreate(Dnn** handle) { *handle = new Dnn {}; handles++; return DNN_OK; }

API int cudnnSetStream(Dnn* handle, void* stream) { handle->stream = stream; return DNN_OK; }

API size_t cudnnGetCudartVersion() { return cuda; }

API int cudnnGraphVersionCheck() { return DNN_OK; }

API int cudnnOpsVersionCheck() { return DNN_OK; }

API int cudnnCnnVersionCheck() { return parts; }

API int cudnnAdvVersionCheck() { return DNN_OK; }

// ---- cuDNN's graphs

#include "graphs.h"
#include "recurrence.h"

// ---- NCCL. Calls return immediately; a communicator's thread waits for the other ranks and adds in rank order.

enum { NCCL_OK, NCCL_INVALID = 4, NCCL_IN_PROGRESS = 7 };

struct UniqueId { char bytes[128]; };
struct Config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster, least_blocks, most_blocks;
    const char* net;
    int split, traffic;
    const char* name;
    int rest[8];
};
struct Sum { void* data; size_t count; int type; std::atomic<long>* under_way; };
struct Comm;
struct Team { std::mutex lock; std::condition_variable changed; std::vector<Comm*> ranks; size_t there = 0; };
struct Comm {
    Team* team;
    int rank;
    std::deque<Sum> sums; // guarded by the team's lock, like everything below
    bool adding = false, leaving = false, aborted = false, stuck = false;
    std::thread thread;
};

static std::mutex teams_lock;
static std::map<std::string, Team*> teams;

static int nccl_type(int type) { return type == 6 ? F16 : type == 7 ? F32 : type == 8 ? F64 : type == 9 ? BF16 : -1; }

// Adds the first sum that all ranks have requested; called by the last rank to request it.
static void add(Team* team) {
    Sum& first = team->ranks[0]->sums.front();
    for (Comm* each : team->ranks) {
        if (each->sums.front().count != first.count || each->sums.front().type != first.type) {
            refuse("all ranks ask for the same sum", NCCL_INVALID);
            return;
        }
    }
    for (size_t i = 0; i < first.count; i++) {
        double sum = 0;
        for (Comm* each : team->ranks) {
            sum += get(first.type, each->sums.front().data, i);
        }
        for (Comm* each : team->ranks) {
            put(first.type, each->sums.front().data, i, sum);
        }
    }
}

static void work(Comm* own) {
    Team* team = own->team;
    std::unique_lock<std::mutex> held(team->lock);
    while (!own->aborted && !(own->leaving && own->sums.empty())) {
        bool all = team->there == team->ranks.size();
        for (Comm* each : team->ranks) {
            all = all && each != nullptr && !each->sums.empty();
        }
        if (!all) {
            team->changed.wait(held);
            continue;
        }
        add(team);
        for (Comm* each : team->ranks) {
            each->sums.front().under_way->fetch_sub(1);
            each->sums.pop_front();
        }
        computed++;
        team->changed.notify_all();
    }
    for (Sum& sum : own->sums) {
        sum.under_way->fetch_sub(1);
    }
    own->sums.clear();
}

API int ncclGetVersion(int* version) { *version = 22903; return NCCL_OK; }

API const char* ncclGetErrorString(int) { return "fake"; }

API const char* ncclGetLastError(Comm*) { return "fake"; }

API int ncclGetUniqueId(UniqueId* id) {
    static std::atomic<int> next {1};
    memset(id->bytes, 7, sizeof id->bytes);
    snprintf(id->bytes, 64, "team %d", next++);
    return NCCL_OK;
}

API int ncclCommInitRankConfig(Comm** comm, int world, UniqueId id, int rank, const Config* config) {
    REQUIRE(config->size == sizeof(Config) && config->magic == 0xcafebeef && config->version == 22903, NCCL_INVALID);
    REQUIRE(config->blocking == 0 && config->cga_cluster == INT_MIN && config->least_blocks == INT_MIN, NCCL_INVALID);
    REQUIRE(config->most_blocks == INT_MIN && config->net == nullptr && config->split == INT_MIN, NCCL_INVALID);
    REQUIRE(config->traffic == INT_MIN && config->name == nullptr, NCCL_INVALID);
    for (int each : config->rest) {
        REQUIRE(each == INT_MIN, NCCL_INVALID);
    }
    REQUIRE(id.bytes[127] == 7 && rank >= 0 && rank < world, NCCL_INVALID);
    std::lock_guard<std::mutex> held(teams_lock);
    Team*& team = teams[id.bytes];
    if (team == nullptr) {
        team = new Team;
        team->ranks.resize(world);
    }
    REQUIRE(team->ranks.size() == (size_t) world && team->ranks[rank] == nullptr, NCCL_INVALID);
    *comm = new Comm {};
    (*comm)->team = team;
    (*comm)->rank = rank;
    std::lock_guard<std::mutex> inside(team->lock);
    team->ranks[rank] = *comm;
    team->there++;
    (*comm)->thread = std::thread(work, *comm);
    team->changed.notify_all();
    return NCCL_IN_PROGRESS;
}

API int ncclCommGetAsyncError(Comm* comm, int* state) {
    std::lock_guard<std::mutex> held(comm->team->lock);
    bool busy = comm->team->there < comm->team->ranks.size() || (comm->leaving && !comm->sums.empty())
            || comm->stuck;
    *state = busy ? NCCL_IN_PROGRESS : NCCL_OK;
    return NCCL_OK;
}

API int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, Comm* comm, void* stream) {
    REQUIRE(from == to && op == 0 && nccl_type(type) >= 0 && stream != nullptr, NCCL_INVALID);
    std::lock_guard<std::mutex> held(comm->team->lock);
    REQUIRE(comm->team->there == comm->team->ranks.size() && !comm->leaving, NCCL_INVALID);
    comm->stuck = count == 7777; // a test's sum that is never queued
    if (comm->stuck) {
        return NCCL_IN_PROGRESS;
    }
    Sum sum {to, count, nccl_type(type), (std::atomic<long>*) stream};
    sum.under_way->fetch_add(1);
    comm->sums.push_back(sum);
    comm->team->changed.notify_all();
    return NCCL_IN_PROGRESS;
}

static int leave(Comm* comm) {
    comm->team->changed.notify_all();
    comm->thread.join();
    return NCCL_OK; // a team outlives its communicators
}

API int ncclCommFinalize(Comm* comm) {
    std::lock_guard<std::mutex> held(comm->team->lock);
    comm->leaving = true;
    comm->team->changed.notify_all();
    return NCCL_IN_PROGRESS;
}

API int ncclCommDestroy(Comm* comm) {
    REQUIRE(comm->leaving && comm->sums.empty(), NCCL_INVALID);
    return leave(comm);
}

API int ncclCommAbort(Comm* comm) {
    {
        std::lock_guard<std::mutex> held(comm->team->lock);
        comm->aborted = true;
    }
    return leave(comm);
}
