// A fake of cuBLASLt, as far as Starling calls it; a part of libraries.cpp.
enum { LT_OK, LT_ALLOC_FAILED = 3, LT_INVALID = 7, LT_UNSUPPORTED = 15 };
enum { RELU = 2, BIAS = 4, GELU = 32, AUX = 128, DRELU = 8 | AUX, DGELU = 64 | AUX, BGRADB = 512 };

struct Matrix { int type; int64_t rows, columns, leading; int batches; int64_t distance; };
struct Product {
    int compute, scale, transposed[2];
    unsigned epilogue;
    void* bias;
    void* aux;
    int64_t aux_leading, aux_distance;

    bool is(unsigned what) const { return (epilogue & what) == what; }
    bool reads_aux() const { return epilogue == DRELU || epilogue == DGELU; }
};
struct Preference { uint64_t workspace; uint32_t reduction, alignment[4]; };
struct Algorithm { uint64_t alignment, workspace, rest[6]; };
static std::map<unsigned, long> epilogues;

// The number of products with an epilogue.
API long fake_epilogue(unsigned epilogue) { return epilogues[epilogue]; }

struct Offer { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };

static int blas_type(int type) { return type == 0 ? F32 : type == 1 ? F64 : type == 2 ? F16 : type == 14 ? BF16 : -1; }

static std::atomic<long> lt_objects;
static std::atomic<int> lt_failure, lt_failures, lt_hides, lt_unopened, lt_run_failure, lt_run_failures;

// Makes the next requests for algorithms fail with a status.
API void fake_products_fail(int status, int times) { lt_failure = status; lt_failures = times; }

// Makes the next products fail with a status.
API void fake_multiply_fails(int status, int times) { lt_run_failure = status; lt_run_failures = times; }

// Sets whether ReLU replaces NaN by 0.
API void fake_relu_hides(int hides) { lt_hides = hides; }

// The number of existing descriptors of products and matrices.
API long fake_products() { return lt_objects; }

API size_t cublasLtGetVersion() { return 130101; }

API int cublasLtMatmulDescDestroy(Product* p) { delete p; lt_objects--; return LT_OK; }

API int cublasLtMatrixLayoutDestroy(Matrix* m) { delete m; lt_objects--; return LT_OK; }

// Makes the next attempts to open the library fail, as where the device has no memory left.
API void fake_products_closed(int times) { lt_unopened = times; }
API int cublasLtCreate(void** handle) {
    if (lt_unopened > 0) {
        lt_unopened--;
        return LT_ALLOC_FAILED;
    }
    *handle = new char;
    return LT_OK;
}

API const char* cublasLtGetStatusString(int) { return "fake"; }

API int cublasLtMatrixLayoutCreate(Matrix** m, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    REQUIRE(blas_type(type) >= 0, LT_INVALID);
    REQUIRE(leading >= (int64_t) rows, LT_INVALID);
    *m = new Matrix {blas_type(type), (int64_t) rows, (int64_t) columns, leading, 1, 0};
    lt_objects++;
    return LT_OK;
}

API int cublasLtMatrixLayoutSetAttribute(Matrix* m, int attribute, const void* value, size_t bytes) {
    REQUIRE(attribute == 5 || attribute == 6, LT_INVALID);
    REQUIRE(bytes == (attribute == 5 ? 4 : 8), LT_INVALID);
    memcpy(attribute == 5 ? (void*) &m->batches : &m->distance, value, bytes);
    return LT_OK;
}

API int cublasLtMatmulDescCreate(Product** p, int compute, int scale) {
    *p = new Product {compute, blas_type(scale), {0, 0}, 1, nullptr, nullptr, 0, 0};
    lt_objects++;
    return LT_OK;
}

API int cublasLtMatmulDescSetAttribute(Product* p, int attribute, const void* value, size_t bytes) {
    std::map<int, void*> places {{3, &p->transposed[0]}, {4, &p->transposed[1]}, {7, &p->epilogue}, {8, &p->bias},
        {11, &p->aux}, {12, &p->aux_leading}, {13, &p->aux_distance}};
    REQUIRE(places.count(attribute), LT_INVALID);
    REQUIRE(bytes == (attribute < 8 ? 4 : 8), LT_INVALID);
    memcpy(places[attribute], value, bytes);
    return LT_OK;
}

API int cublasLtMatmulPreferenceCreate(Preference** p) {
    *p = new Preference {0, 7, {256, 256, 256, 256}};
    return LT_OK;
}

API int cublasLtMatmulPreferenceDestroy(Preference* p) { delete p; return LT_OK; }

API int cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
    REQUIRE(attribute == 1 || attribute == 3 || (attribute >= 5 && attribute <= 8), LT_INVALID);
    REQUIRE(bytes == (attribute == 1 ? 8 : 4), LT_INVALID);
    memcpy(attribute == 1 ? (void*) &p->workspace : attribute == 3 ? &p->reduction : &p->alignment[attribute - 5],
            value, bytes);
    return LT_OK;
}

static int check(Product* p, Matrix* a, Matrix* b, Matrix* c, Matrix* d) {
    bool ta = p->transposed[0], tb = p->transposed[1];
    int64_t depth = ta ? a->rows : a->columns;
    REQUIRE(a->type == b->type && a->type == c->type && a->type == d->type, LT_INVALID);
    REQUIRE(p->scale == (d->type == F64 ? F64 : F32), LT_INVALID);
    REQUIRE(p->compute == (d->type == F64 ? 70 : 68), LT_INVALID);
    REQUIRE((ta ? a->columns : a->rows) == d->rows, LT_INVALID);
    REQUIRE((tb ? b->rows : b->columns) == d->columns, LT_INVALID);
    REQUIRE((tb ? b->columns : b->rows) == depth && depth > 0, LT_INVALID);
    REQUIRE(a->batches == d->batches && b->batches == d->batches, LT_INVALID);
    REQUIRE(a->distance >= 0 && b->distance >= 0, LT_INVALID);
    REQUIRE(d->batches == 1 || d->distance >= d->leading * d->columns, LT_INVALID);
    REQUIRE(!p->is(BIAS) || aligned(p->bias, 16), LT_INVALID);
    REQUIRE(p->epilogue != BGRADB || aligned(p->bias, 16), LT_INVALID);
    if (p->is(AUX)) {
        bool bits = p->epilogue == DRELU;
        REQUIRE(p->reads_aux() || (p->epilogue & ~BIAS) == (GELU | AUX), LT_INVALID);
        REQUIRE(aligned(p->aux, 16) && p->aux_leading % (bits ? 128 : 8) == 0, LT_INVALID);
        REQUIRE(p->aux_leading >= d->rows, LT_INVALID);
        REQUIRE(d->batches == 1 || p->aux_distance >= p->aux_leading * d->columns, LT_INVALID);
    }
    return LT_OK;
}

// Refuses what the real library is known to refuse, so that the fallback is tested too.
static bool is_supported(const Product* p, const Matrix* a, const Matrix* b, const Matrix* d) {
    int64_t depth = p->transposed[0] ? a->rows : a->columns;
    if (p->epilogue == BGRADB) {
        return p->transposed[1] && d->columns > 1 && d->type != F64;
    }
    if (p->reads_aux()) {
        return !p->transposed[0] && !p->transposed[1] && depth > 1 && d->type != F64;
    }
    return p->epilogue == 1 || d->type != F64;
}

static double gelu(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x) {
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x) / 2;
}

// Applies the epilogue to a sum, of row i and column j of matrix n.
static double after(const Product* p, int type, double sum, int64_t n, int64_t i, int64_t j) {
    int64_t at = n * p->aux_distance + i + j * p->aux_leading;
    if (p->epilogue == DRELU) {
        return ((const unsigned char*) p->aux)[at / 8] >> at % 8 & 1 ? sum : 0;
    }
    if (p->epilogue == DGELU) {
        return sum * gelu_slope(get(type, p->aux, at));
    }
    if (p->is(GELU | AUX)) {
        put(type, p->aux, at, sum);
    }
    return p->is(GELU) ? gelu(sum) : p->is(RELU) && (lt_hides ? !(sum > 0) : sum <= 0) ? 0 : sum;
}

API int cublasLtMatmulAlgoGetHeuristic(void*, Product* p, Matrix* a, Matrix* b, Matrix* c, Matrix* d, Preference* how,
        int most, Offer* offers, int* found) {
    *found = 0;
    if (lt_failures > 0) {
        lt_failures--;
        return lt_failure;
    }
    if (int error = check(p, a, b, c, d)) {
        return error;
    }
    REQUIRE(most > 0 && (size_of(d->type) > 2 || !(how->reduction & 5)), LT_INVALID);
    if (!is_supported(p, a, b, d)) {
        return LT_UNSUPPORTED;
    }
    size_t workspace = how->workspace < 4096 ? how->workspace : 4096;
    uint32_t alignment = ~0u;
    for (uint32_t bytes : how->alignment) {
        alignment = bytes < alignment ? bytes : alignment;
    }
    offers[0] = Offer {{alignment, workspace, {}}, workspace, LT_OK, 1, {}};
    *found = 1;
    return LT_OK;
}

static int multiply(const Product* p, double factor, const void* a, const Matrix* la, const void* b, const Matrix* lb,
        void* d, const Matrix* ld, void* workspace, size_t bytes) {
    memset(workspace, 0xff, bytes);
    int type = ld->type;
    int64_t depth = p->transposed[0] ? la->rows : la->columns;
    for (int64_t n = 0; n < ld->batches; n++) {
        for (int64_t j = 0; j < ld->columns; j++) {
            for (int64_t i = 0; i < ld->rows; i++) {
                double sum = p->is(BIAS) ? get(type, p->bias, i) : 0;
                for (int64_t k = 0; k < depth; k++) {
                    int64_t left = p->transposed[0] ? k + i * la->leading : i + k * la->leading;
                    int64_t right = p->transposed[1] ? j + k * lb->leading : k + j * lb->leading;
                    sum += get(type, a, n * la->distance + left) * get(type, b, n * lb->distance + right);
                }
                put(type, d, n * ld->distance + i + j * ld->leading, after(p, type, factor * sum, n, i, j));
            }
        }
    }
    for (int64_t j = 0; p->epilogue == BGRADB && j < ld->columns; j++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++) {
            sum += get(type, b, p->transposed[1] ? j + k * lb->leading : k + j * lb->leading);
        }
        put(type, p->bias, j, sum);
    }
    computed++;
    return LT_OK;
}

API int cublasLtMatmul(void*, Product* p, const void* alpha, const void* a, Matrix* la, const void* b, Matrix* lb,
        const void* beta, const void* c, Matrix* lc, void* d, Matrix* ld, const Algorithm* algorithm, void* workspace,
        size_t bytes, void* stream) {
    if (lt_run_failures > 0) {
        lt_run_failures--;
        return lt_run_failure;
    }
    if (int error = check(p, la, lb, lc, ld)) {
        return error;
    }
    REQUIRE(stream != nullptr, LT_INVALID);
    double factor = get(p->scale, alpha, 0);
    REQUIRE((factor == 1 || (factor != factor && p->is(RELU))) && get(p->scale, beta, 0) == 0, LT_INVALID);
    REQUIRE(aligned(a, algorithm->alignment) && aligned(b, algorithm->alignment), LT_INVALID);
    REQUIRE(c == d && aligned(d, algorithm->alignment), LT_INVALID);
    REQUIRE(bytes >= algorithm->workspace && aligned(workspace, 256), LT_INVALID);
    epilogues[p->epilogue] += factor == 1;
    return on(stream, [=, product = *p, left = *la, right = *lb, result = *ld, used = algorithm->workspace] {
        return multiply(&product, factor, a, &left, b, &right, d, &result, workspace, used);
    });
}
