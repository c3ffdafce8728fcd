// A fake of cuDNN's graphs: descriptors keep their attributes; a plan runs operation by operation, in double precision.
#include <map>

enum { TYPE_HANDLE, TYPE_DATA, TYPE_BOOLEAN, TYPE_INT64, TYPE_FLOAT, TYPE_DOUBLE, TYPE_POINTER, TYPE_CONVOLUTION,
    TYPE_HEURISTIC, TYPE_NAN = 10, TYPE_NOTE, TYPE_POINTWISE = 14, TYPE_DESCRIPTOR = 15, TYPE_REDUCTION = 18 };
enum { POINTWISE, CONVOLUTION, ENGINE, CONFIGURATION, HEURISTIC, PLAN, CONV_FORWARD = 10, CONV_WEIGHT, CONV_INPUT,
    POINTWISE_OPERATION, OPERATION_GRAPH = 15, PACK, TENSOR, MATMUL, MATMUL_OPERATION, REDUCTION = 21,
    REDUCTION_OPERATION, RESHAPE_OPERATION = 31 };
// The engines on offer: one for which planning fails, one that accumulates in few bits, one that is nondeterministic,
// one with tensor cores, and one without restrictions.
enum { UNPLANNABLE, FEW_BITS, ANY_BITS, TENSOR_CORES, PLAIN, ENGINES };
static const int NOTES[] = {-1, 2, 4, 0, -1};

struct Descriptor {
    int type;
    bool final;
    std::map<int, std::vector<int64_t>> values;

    bool has(int attribute) const { return values.count(attribute) > 0; }
    int64_t at(int attribute) const { return has(attribute) ? values.at(attribute)[0] : 0; }
    Descriptor* to(int attribute) const { return (Descriptor*) at(attribute); }
};

// The type of an attribute's values, by the ranges of attribute numbers.
static int type_of(int attribute) {
    switch (attribute) {
        case 0: return TYPE_POINTWISE;
        case 2: return TYPE_NAN;
        case 101: return TYPE_CONVOLUTION;
        case 700: case 701: case 706: case 707: case 712: case 713: return TYPE_FLOAT;
        case 1303: return TYPE_NOTE;
        case 1: case 100: case 901: case 1500: case 1601: return TYPE_DATA;
        case 102: case 103: case 104: case 105: case 106: return TYPE_INT64;
        case 9: case 900: case 902: case 903: case 906: case 1000: return TYPE_INT64;
        case 200: return TYPE_HEURISTIC;
        case 400: case 800: return TYPE_HANDLE;
        case 907: case 908: return TYPE_BOOLEAN;
        case 1001: case 1003: return TYPE_POINTER;
        case 1600: return TYPE_REDUCTION;
    }
    return TYPE_DESCRIPTOR;
}

static std::atomic<size_t> version {91900};
static std::atomic<long> descriptors, planned;
static std::atomic<int> failure, failures, execute_failure, execute_failures;

// Sets the version.
API void fake_version(size_t number) { version = number; }

// Makes the finalization of the next plans fail with a status.
API void fake_failures(int status, int times) { failure = status; failures = times; }

// Makes the next executions of plans fail with a status.
API void fake_execute_fails(int status, int times) { execute_failure = status; execute_failures = times; }

// The number of existing descriptors.
API long fake_descriptors() { return descriptors; }

// The number of plans whose finalization was requested.
API long fake_planned() { return planned; }

API size_t cudnnGetVersion() { return version; }

static std::mutex plans_lock;
static std::set<Descriptor*> plans; // existing plans that have run

API int cudnnBackendCreateDescriptor(int type, Descriptor** d) {
    *d = new Descriptor { type, false, {} };
    descriptors++;
    return DNN_OK;
}

API int cudnnBackendDestroyDescriptor(Descriptor* d) {
    {
        std::lock_guard<std::mutex> guard(plans_lock);
        plans.erase(d);
    }
    delete d;
    descriptors--;
    return DNN_OK;
}

API int cudnnBackendSetAttribute(Descriptor* d, int attribute, int type, int64_t count, const void* p) {
    REQUIRE(!d->final, 2000);
    REQUIRE(type == type_of(attribute), 2000);
    std::vector<int64_t>& values = d->values[attribute];
    for (int64_t i = 0; i < count; i++) {
        bool wide = type == TYPE_HANDLE || type == TYPE_INT64 || type == TYPE_POINTER || type == TYPE_DESCRIPTOR;
        values.push_back(wide ? ((const int64_t*) p)[i] : type == TYPE_BOOLEAN ? ((const uint8_t*) p)[i]
                : ((const int32_t*) p)[i]);
        REQUIRE(type != TYPE_DESCRIPTOR || ((Descriptor*) values.back())->final, 2000);
    }
    return DNN_OK;
}

static bool is_convolution(const Descriptor* o) { return o->type >= CONV_FORWARD && o->type <= CONV_INPUT; }

// The type of a convolution's images.
static int64_t image_type(const Descriptor* o) {
    return o->to(o->type == CONV_FORWARD ? 704 : o->type == CONV_INPUT ? 710 : 716)->at(901);
}

// Bias and ReLU after a convolution are refused for f16, so that the fallback is tested too.
static bool has_engines(const Descriptor* graph) {
    bool f16 = false, pointwise = false;
    for (int64_t each : graph->values.at(801)) {
        Descriptor* o = (Descriptor*) each;
        f16 |= is_convolution(o) && image_type(o) == 2;
        pointwise |= o->type == POINTWISE_OPERATION;
    }
    return !(f16 && pointwise);
}

API int cudnnBackendGetAttribute(Descriptor* d, int attribute, int type, int64_t most, int64_t* count, void* p) {
    REQUIRE(d->final, 2000);
    if (attribute == 402) {
        REQUIRE(d->type == PLAN && type == TYPE_INT64, 2000);
        *(int64_t*) p = 256;
        *count = 1;
        return DNN_OK;
    }
    if (attribute == 300) {
        REQUIRE(d->type == CONFIGURATION && type == TYPE_DESCRIPTOR && most == 1, 2000);
        Descriptor* engine = *(Descriptor**) p;
        REQUIRE(engine->type == ENGINE && !engine->final, 2000);
        engine->final = true;
        engine->values[0] = { d->at(0) };
        *count = 1;
        return DNN_OK;
    }
    if (attribute == 1303) {
        REQUIRE(d->type == ENGINE && type == TYPE_NOTE && most > 0, 2000);
        *(int*) p = NOTES[d->at(0)];
        *count = NOTES[d->at(0)] >= 0;
        return DNN_OK;
    }
    REQUIRE(attribute == 202 && d->type == HEURISTIC && type == TYPE_DESCRIPTOR && most >= ENGINES, 2000);
    *count = d->at(200) == 3 && has_engines(d->to(201)) ? ENGINES : 0;
    for (int64_t i = 0; i < *count; i++) {
        Descriptor* configuration = ((Descriptor**) p)[i];
        REQUIRE(configuration->type == CONFIGURATION, 2000);
        configuration->final = true;
        configuration->values[0] = { i, d->at(201) };
    }
    return DNN_OK;
}

API int cudnnBackendFinalize(Descriptor* d) {
    REQUIRE(!d->final, 2000);
    planned += d->type == PLAN;
    if (d->type == PLAN && failures > 0) {
        failures--;
        return failure;
    }
    if (d->type == PLAN && d->to(401)->at(0) == UNPLANNABLE) {
        return 3000;
    }
    if (d->type == TENSOR) {
        REQUIRE(d->values[902].size() == 4 && d->values[903].size() == 4 && d->has(901) && d->has(906), 2000);
        REQUIRE(d->at(900) == 16, 2000);
    }
    if (d->type == HEURISTIC) {
        REQUIRE(d->at(200) == 3 || d->at(200) == 2, 2000);
    }
    if (d->type == POINTWISE && d->at(0) == 100) {
        REQUIRE(d->at(2) == 1, 2000);
    }
    if (d->type == CONVOLUTION) {
        REQUIRE(d->at(100) == 0 && d->at(101) == 1 && d->at(106) == 2, 2000);
        REQUIRE(d->values[102].size() == 2 && d->values[103].size() == 2, 2000);
        REQUIRE(d->values[104].size() == 2 && d->values[104] == d->values[105], 2000);
    }
    d->final = true;
    return DNN_OK;
}

// The elements of an operand, row-major in four dimensions.
struct Values {
    Descriptor* tensor;
    std::vector<double> at;

    int64_t size(int d) const { return tensor->values[902][d]; }
    int64_t stride(int d) const { return tensor->values[903][d]; }
    int64_t count() const { return size(0) * size(1) * size(2) * size(3); }
    void place(int64_t i, int64_t (&p)[4]) const {
        for (int d = 3; d >= 0; d--) {
            p[d] = i % size(d);
            i /= size(d);
        }
    }
    int64_t number(const int64_t (&p)[4]) const {
        int64_t i = 0;
        for (int d = 0; d < 4; d++) {
            i = i * size(d) + (size(d) == 1 ? 0 : p[d]);
        }
        return i;
    }
    int64_t offset(int64_t i) const {
        int64_t p[4], sum = 0;
        place(i, p);
        for (int d = 0; d < 4; d++) {
            sum += p[d] * stride(d);
        }
        return sum;
    }
};

typedef std::map<Descriptor*, Values> Operands;

static double pointwise(int mode, double x, double b, double t) {
    switch (mode) {
        case 0: return x + b;
        case 1: return x * b;
        case 6: return x / b;
        case 9: return x - b;
        case 13: return exp(x);
        case 15: return log(x);
        case 21: return x;
        case 100: return x <= 0 ? 0 : x;
        case 303: return x >= b;
        case 304: return x < b;
        case 400: return x != 0 && b != 0;
        case 601: return t != 0 ? x : b;
    }
    return 0.0 / 0.0;
}

static void play_pointwise(Descriptor* o, Operands& all) {
    Values& y = all[o->to(753)];
    int mode = (int) o->to(750)->at(0);
    for (int64_t i = 0; i < y.count(); i++) {
        int64_t p[4];
        y.place(i, p);
        double operand[3] = {};
        int attributes[] = {751, 752, 758};
        for (int k = 0; k < 3; k++) {
            if (o->has(attributes[k])) {
                Values& x = all[o->to(attributes[k])];
                operand[k] = x.at[x.number(p)];
            }
        }
        y.at[i] = mode == 501 ? (double) p[o->to(750)->at(9)] : pointwise(mode, operand[0], operand[1], operand[2]);
    }
}

// Lengths must be those of whole sequences.
#define REQUIRE_VOID(holds) if (!(holds)) { refuse(#holds, 2000); return; }
static void play_product(Descriptor* o, Operands& all) {
    Values& a = all[o->to(1520)];
    Values& b = all[o->to(1521)];
    Values& y = all[o->to(1522)];
    int overrides[] = {1525, 1526, 1527};
    int64_t sizes[] = {y.size(2), y.size(3), a.size(3)};
    for (int k = 0; k < 3; k++) {
        REQUIRE_VOID(!o->has(overrides[k]) || all[o->to(overrides[k])].at[0] == sizes[k]);
    }
    for (int64_t i = 0; i < y.count(); i++) {
        int64_t p[4];
        y.place(i, p);
        double sum = 0;
        for (int64_t d = 0; d < a.size(3); d++) {
            sum += a.at[a.number({p[0], p[1], p[2], d})] * b.at[b.number({p[0], p[1], d, p[3]})];
        }
        y.at[i] = sum;
    }
}

static void play_reduction(Descriptor* o, Operands& all) {
    Values& x = all[o->to(1610)];
    Values& y = all[o->to(1611)];
    bool greatest = o->to(1612)->at(1600) == 3;
    y.at.assign(y.at.size(), greatest ? -1.0 / 0.0 : 0);
    for (int64_t i = 0; i < x.count(); i++) {
        int64_t p[4];
        x.place(i, p);
        double& to = y.at[y.number(p)];
        to = greatest ? (x.at[i] > to ? x.at[i] : to) : to + x.at[i];
    }
}

static void play_reshape(Descriptor* o, Operands& all) {
    Values& x = all[o->to(2200)];
    Values& y = all[o->to(2201)];
    for (int64_t i = 0; i < y.count(); i++) {
        int64_t p[4];
        y.place(i, p);
        y.at[i] = x.at[x.number({p[0], p[1], p[3], p[2]})];
    }
}

// A convolution's operands are those of the forward pass: x, w and y. One of them is computed.
static int play_convolution(Descriptor* o, Operands& all) {
    int first = o->type == CONV_FORWARD ? 700 : o->type == CONV_INPUT ? 706 : 712;
    int32_t one = (int32_t) o->at(first);
    REQUIRE(one == 0x3f800000 && o->at(first + 1) == 0, 2000);
    Descriptor* how = o->to(first + 2);
    Values& w = all[o->to(first + 3)];
    Values& x = all[o->to(first + 4)];
    Values& y = all[o->to(first + 5)];
    REQUIRE(x.size(1) % w.size(1) == 0 && w.size(0) == y.size(1) && x.size(0) == y.size(0), 2000);
    int64_t groups = x.size(1) / w.size(1);
    REQUIRE(y.size(1) % groups == 0, 2000);
    for (int d = 0; d < 2; d++) {
        int64_t span = x.size(2 + d) + 2 * how->values[104][d] - how->values[102][d] * (w.size(2 + d) - 1) - 1;
        REQUIRE(y.size(2 + d) == span / how->values[103][d] + 1, 2000);
    }
    Values& to = o->type == CONV_FORWARD ? y : o->type == CONV_INPUT ? x : w;
    to.at.assign(to.at.size(), 0);
    for (int64_t i = 0; i < y.count(); i++) {
        int64_t p[4];
        y.place(i, p);
        for (int64_t k = 0; k < w.count() / w.size(0); k++) {
            int64_t q[4];
            w.place(k, q);
            int64_t row = p[2] * how->values[103][0] - how->values[104][0] + q[2] * how->values[102][0];
            int64_t column = p[3] * how->values[103][1] - how->values[104][1] + q[3] * how->values[102][1];
            if (row < 0 || row >= x.size(2) || column < 0 || column >= x.size(3)) {
                continue;
            }
            int64_t channel = p[1] / (y.size(1) / groups) * w.size(1) + q[1];
            int64_t from = x.number({p[0], channel, row, column}), weight = w.number({p[1], q[1], q[2], q[3]});
            switch (o->type) {
                case CONV_FORWARD: y.at[i] += x.at[from] * w.at[weight]; break;
                case CONV_INPUT: x.at[from] += y.at[i] * w.at[weight]; break;
                default: w.at[weight] += x.at[from] * y.at[i];
            }
        }
    }
    return DNN_OK;
}

// Whether a plan's engine guarantees what the operations of its graph need.
static bool suits(int64_t engine, const Descriptor* graph) {
    for (int64_t each : graph->values.at(801)) {
        Descriptor* o = (Descriptor*) each;
        bool wide = is_convolution(o) && image_type(o) == 0;
        if (engine < (wide ? PLAIN : is_convolution(o) ? TENSOR_CORES : ANY_BITS)) {
            return false;
        }
    }
    return true;
}

static int memory_type(int64_t type) { return type == 0 ? F32 : type == 2 ? F16 : type == 9 ? BF16 : -1; }

static double element(const Descriptor* t, const void* p, int64_t i) {
    return t->at(901) == 4 ? ((const int32_t*) p)[i] : get(memory_type(t->at(901)), p, i);
}

static int execute(Descriptor* plan, Descriptor* pack) {
    {
        std::lock_guard<std::mutex> guard(plans_lock);
        REQUIRE(plans.count(plan), 2000);
    }
    std::map<int64_t, void*> memory;
    for (size_t i = 0; i < pack->values[1000].size(); i++) {
        memory[pack->values[1000][i]] = (void*) pack->values[1001][i];
    }
    Descriptor* graph = (Descriptor*) plan->to(401)->values[0][1];
    REQUIRE(suits(plan->to(401)->at(0), graph), 2000);
    memset((void*) pack->at(1003), 0xff, 256);
    Operands all;
    std::map<Descriptor*, bool> written;
    for (int64_t o : graph->values[801]) {
        for (auto& [attribute, values] : ((Descriptor*) o)->values) {
            Descriptor* t = (Descriptor*) values[0];
            if (attribute == 0 || type_of(attribute) != TYPE_DESCRIPTOR || t->type != TENSOR || all.count(t)) {
                continue;
            }
            Values& x = all[t] = Values { t, {} };
            x.at.assign(x.count(), 0.0 / 0.0);
            REQUIRE((t->at(907) != 0) == (memory.count(t->at(906)) == 0), 2000);
            REQUIRE(t->at(907) || t->at(908) || aligned(memory[t->at(906)], 16), 2000);
            for (int64_t i = 0; !t->at(907) && i < x.count(); i++) {
                x.at[i] = element(t, memory[t->at(906)], x.offset(i));
            }
        }
    }
    int error = DNN_OK;
    for (int64_t o : graph->values[801]) {
        Descriptor* d = (Descriptor*) o;
        std::vector<int> results;
        switch (d->type) {
            case CONV_FORWARD: error = play_convolution(d, all); results = {705}; break;
            case CONV_INPUT: error = play_convolution(d, all); results = {710}; break;
            case CONV_WEIGHT: error = play_convolution(d, all); results = {715}; break;
            case POINTWISE_OPERATION: play_pointwise(d, all); results = {753}; break;
            case MATMUL_OPERATION: play_product(d, all); results = {1522}; break;
            case REDUCTION_OPERATION: play_reduction(d, all); results = {1611}; break;
            case RESHAPE_OPERATION: play_reshape(d, all); results = {2201}; break;
            default: return refuse("an operation of the graph", 3000);
        }
        if (error != DNN_OK) {
            return error;
        }
        for (int each : results) {
            written[d->to(each)] = true;
        }
    }
    for (auto& [t, x] : all) {
        for (int64_t i = 0; written[t] && !t->at(907) && i < x.count(); i++) {
            put(memory_type(t->at(901)), memory[t->at(906)], x.offset(i), x.at[i]);
        }
    }
    computed++;
    return DNN_OK;
}

API int cudnnBackendExecute(Dnn* handle, Descriptor* plan, Descriptor* pack) {
    if (execute_failures > 0) {
        execute_failures--;
        return execute_failure;
    }
    REQUIRE(plan->type == PLAN && plan->final && pack->type == PACK && pack->final, 2000);
    REQUIRE(aligned((void*) pack->at(1003), 16), 2000);
    {
        std::lock_guard<std::mutex> guard(plans_lock);
        plans.insert(plan);
    }
    return on(handle->stream, [=, operands = *pack]() mutable { return execute(plan, &operands); });
}
