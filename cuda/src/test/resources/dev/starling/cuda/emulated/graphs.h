// cuDNN's graphs, played: descriptors keep their attributes; a plan is carried out operation by operation, in double.
#include <map>

enum { TYPE_HANDLE, TYPE_DATA, TYPE_BOOLEAN, TYPE_INT64, TYPE_FLOAT, TYPE_DOUBLE, TYPE_POINTER, TYPE_HEURISTIC = 8,
    TYPE_POINTWISE = 14, TYPE_DESCRIPTOR = 15, TYPE_REDUCTION = 18 };
enum { POINTWISE, ENGINE = 3, HEURISTIC, PLAN, POINTWISE_OPERATION = 13, OPERATION_GRAPH = 15, PACK, TENSOR,
    MATMUL, MATMUL_OPERATION, REDUCTION = 21, REDUCTION_OPERATION, RESHAPE_OPERATION = 31 };

struct Descriptor {
    int type;
    bool final;
    std::map<int, std::vector<int64_t>> values;

    bool has(int attribute) const { return values.count(attribute) > 0; }
    int64_t at(int attribute) const { return has(attribute) ? values.at(attribute)[0] : 0; }
    Descriptor* to(int attribute) const { return (Descriptor*) at(attribute); }
};

// Which type the values of an attribute have, by the ranges in which attributes are numbered.
static int type_of(int attribute) {
    switch (attribute) {
        case 0: return TYPE_POINTWISE;
        case 1: case 901: case 1500: case 1601: return TYPE_DATA;
        case 9: case 900: case 902: case 903: case 906: case 1000: return TYPE_INT64;
        case 200: return TYPE_HEURISTIC;
        case 400: case 800: return TYPE_HANDLE;
        case 907: case 908: return TYPE_BOOLEAN;
        case 1001: case 1003: return TYPE_POINTER;
        case 1600: return TYPE_REDUCTION;
    }
    return TYPE_DESCRIPTOR;
}

API size_t cudnnGetVersion() { return 91900; }

API int cudnnBackendCreateDescriptor(int type, Descriptor** d) {
    *d = new Descriptor { type, false, {} };
    return DNN_OK;
}

API int cudnnBackendDestroyDescriptor(Descriptor* d) { delete d; return DNN_OK; }

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

// The first of two engines is one that cannot be planned with.
API int cudnnBackendGetAttribute(Descriptor* d, int attribute, int type, int64_t most, int64_t* count, void* p) {
    REQUIRE(d->final, 2000);
    if (attribute == 402) {
        REQUIRE(d->type == PLAN && type == TYPE_INT64, 2000);
        *(int64_t*) p = 256;
        *count = 1;
        return DNN_OK;
    }
    REQUIRE(attribute == 202 && d->type == HEURISTIC && type == TYPE_DESCRIPTOR && most >= 2, 2000);
    for (int64_t i = 0; i < 2; i++) {
        Descriptor* engine = ((Descriptor**) p)[i];
        REQUIRE(engine->type == ENGINE, 2000);
        engine->final = true;
        engine->values[0] = { i, d->at(201) };
    }
    *count = 2;
    return DNN_OK;
}

API int cudnnBackendFinalize(Descriptor* d) {
    REQUIRE(!d->final, 2000);
    if (d->type == PLAN && d->to(401)->at(0) == 0) {
        return 3000;
    }
    if (d->type == TENSOR) {
        REQUIRE(d->values[902].size() == 4 && d->values[903].size() == 4 && d->has(901) && d->has(906), 2000);
        REQUIRE(d->at(900) == 16, 2000);
    }
    d->final = true;
    return DNN_OK;
}

// Elements of an operand, row-major in four dimensions.
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
        case 303: return x >= b;
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

static void play_product(Descriptor* o, Operands& all) {
    Values& a = all[o->to(1520)];
    Values& b = all[o->to(1521)];
    Values& y = all[o->to(1522)];
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

static int memory_type(int64_t type) { return type == 0 ? F32 : type == 2 ? F16 : type == 9 ? BF16 : -1; }

API int cudnnBackendExecute(Dnn*, Descriptor* plan, Descriptor* pack) {
    REQUIRE(plan->type == PLAN && plan->final && pack->type == PACK && pack->final, 2000);
    REQUIRE(aligned((void*) pack->at(1003), 16), 2000);
    std::map<int64_t, void*> memory;
    for (size_t i = 0; i < pack->values[1000].size(); i++) {
        memory[pack->values[1000][i]] = (void*) pack->values[1001][i];
    }
    Descriptor* graph = (Descriptor*) plan->to(401)->values[0][1];
    Operands all;
    std::map<Descriptor*, bool> written;
    for (int64_t o : graph->values[801]) {
        for (auto& [attribute, values] : ((Descriptor*) o)->values) {
            Descriptor* t = (Descriptor*) values[0];
            if (t->type != TENSOR || all.count(t)) {
                continue;
            }
            Values& x = all[t] = Values { t, {} };
            x.at.assign(x.count(), 0.0 / 0.0);
            REQUIRE((t->at(907) != 0) == (memory.count(t->at(906)) == 0), 2000);
            REQUIRE(t->at(907) || t->at(908) || aligned(memory[t->at(906)], 16), 2000);
            for (int64_t i = 0; !t->at(907) && i < x.count(); i++) {
                x.at[i] = get(memory_type(t->at(901)), memory[t->at(906)], x.offset(i));
            }
        }
    }
    for (int64_t o : graph->values[801]) {
        Descriptor* d = (Descriptor*) o;
        switch (d->type) {
            case POINTWISE_OPERATION: play_pointwise(d, all); written[d->to(753)] = true; break;
            case MATMUL_OPERATION: play_product(d, all); written[d->to(1522)] = true; break;
            case REDUCTION_OPERATION: play_reduction(d, all); written[d->to(1611)] = true; break;
            case RESHAPE_OPERATION: play_reshape(d, all); written[d->to(2201)] = true; break;
            default: return refuse("an operation of the graph", 3000);
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
