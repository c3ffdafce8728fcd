package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_RESULTS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_MATMUL_COMP_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATIONGRAPH_OPS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_ADESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_BDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_CDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_TDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_RESHAPE_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_AXIS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_MATH_PREC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_REDUCTION_COMP_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_REDUCTION_OPERATOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_DATA_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_DIMENSIONS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_IS_BY_VALUE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_IS_VIRTUAL;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_STRIDES;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_UNIQUE_ID;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_MATMUL_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_TENSOR_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BOOLEAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_INT32;
import static org.bytedeco.cuda.global.cudnn.CUDNN_HEUR_MODE_A;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_ADD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_BINARY_SELECT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_CMP_GE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_DIV;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_EXP;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_GEN_INDEX;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_IDENTITY;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_LOG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_MUL;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_SUB;
import static org.bytedeco.cuda.global.cudnn.CUDNN_REDUCE_TENSOR_ADD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_REDUCE_TENSOR_MAX;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BOOLEAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_DATA_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HEUR_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_INT64;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_POINTWISE_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_VOID_PTR;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendCreateDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendDestroyDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendExecute;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendFinalize;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendGetAttribute;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendSetAttribute;
import static org.bytedeco.cuda.global.cudnn.cudnnGetErrorString;

import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Place;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnBackendDescriptor_t;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;

/**
 * A {@link Graph} that cuDNN's backend interface has found an engine for: made of descriptors, which are created, given
 * attributes and finalized. It lives as long as the process, and so do they.
 */
final class GraphPlan {
    private static final long ALIGNMENT = 16;
    private static final int MOST_ENGINES = 8;

    private final cudnnContext handle;
    private final cudnnBackendDescriptor_t plan;
    private final long workspaceBytes;
    private final LongPointer ids;
    private final LongPointer addresses;
    private final int memories;
    /** Constants are read when a plan is carried out. */
    private final List<FloatPointer> constants = new ArrayList<>();

    private GraphPlan(cudnnContext handle, Graph graph, cudnnBackendDescriptor_t plan) {
        this.handle = handle;
        this.plan = plan;
        try (LongPointer bytes = new LongPointer(1)) {
            check(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                    new long[1], bytes), "workspace size");
            workspaceBytes = bytes.get();
        }
        List<Operand> memory = graph.operands().stream().filter(o -> o.place() == Place.MEMORY).toList();
        List<Operand> numbers = graph.operands().stream().filter(o -> o.place() == Place.CONSTANT).toList();
        memories = memory.size();
        ids = new LongPointer(memories + numbers.size());
        addresses = new LongPointer(memories + numbers.size());
        for (int i = 0; i < memories; i++) {
            ids.put(i, id(memory.get(i)));
        }
        for (Operand number : numbers) {
            FloatPointer value = new FloatPointer(number.value());
            ids.put(memories + constants.size(), id(number));
            addresses.put(memories + constants.size(), value.address());
            constants.add(value);
        }
    }

    /** Returns a plan for a graph, or {@code null} if the library has no engine for it. */
    static GraphPlan of(cudnnContext handle, Graph graph, long mostWorkspaceBytes) {
        List<cudnnBackendDescriptor_t> made = new ArrayList<>();
        GraphPlan plan = null;
        try {
            cudnnBackendDescriptor_t[] operands = new cudnnBackendDescriptor_t[graph.operands().size()];
            for (Operand o : graph.operands()) {
                operands[o.id()] = operand(made, o);
            }
            long[] operations = new long[graph.operations().size()];
            for (int i = 0; i < operations.length; i++) {
                operations[i] = operation(made, graph.operations().get(i), operands).address();
            }
            cudnnBackendDescriptor_t all = made(made, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
            set(all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle.address());
            set(all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
            if (cudnnBackendFinalize(all) != CUDNN_STATUS_SUCCESS) {
                return null;
            }
            plan = fastest(made, handle, graph, all, mostWorkspaceBytes);
            return plan;
        } finally {
            if (plan == null) {
                made.forEach(d -> cudnnBackendDestroyDescriptor(d));
            }
        }
    }

    /** Tries engines in the order in which the library expects them to be fast. */
    private static GraphPlan fastest(List<cudnnBackendDescriptor_t> made, cudnnContext handle, Graph graph,
            cudnnBackendDescriptor_t all, long mostWorkspaceBytes) {
        cudnnBackendDescriptor_t advice = made(made, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        set(advice, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, all.address());
        setEnum(advice, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
        if (cudnnBackendFinalize(advice) != CUDNN_STATUS_SUCCESS) {
            return null;
        }
        cudnnBackendDescriptor_t[] engines = new cudnnBackendDescriptor_t[MOST_ENGINES];
        long[] found = new long[1];
        try (LongPointer addresses = new LongPointer(MOST_ENGINES)) {
            for (int i = 0; i < MOST_ENGINES; i++) {
                engines[i] = made(made, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
                addresses.put(i, engines[i].address());
            }
            check(cudnnBackendGetAttribute(advice, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    MOST_ENGINES, found, addresses), "engines");
        }
        for (int i = 0; i < Math.min(found[0], MOST_ENGINES); i++) {
            cudnnBackendDescriptor_t plan = new cudnnBackendDescriptor_t();
            check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan), "plan");
            set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle.address());
            set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, engines[i].address());
            if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS) {
                GraphPlan candidate = new GraphPlan(handle, graph, plan);
                if (candidate.workspaceBytes <= mostWorkspaceBytes) {
                    return candidate;
                }
            }
            cudnnBackendDestroyDescriptor(plan);
        }
        return null;
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /** Queues the graph's work on operands in memory, whose addresses are given in the order of their numbers. */
    void run(long workspace, long... operands) {
        if (operands.length != memories) {
            throw new IllegalArgumentException("the graph has " + memories + " operands, got " + operands.length);
        }
        for (int i = 0; i < memories; i++) {
            addresses.put(i, operands[i]);
        }
        cudnnBackendDescriptor_t pack = new cudnnBackendDescriptor_t();
        check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack), "variant pack");
        try {
            int n = memories + constants.size();
            set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
            set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, addresses);
            set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
            check(cudnnBackendFinalize(pack), "variant pack");
            check(cudnnBackendExecute(handle, plan, pack), "cudnnBackendExecute");
        } finally {
            cudnnBackendDestroyDescriptor(pack);
        }
    }

    private static cudnnBackendDescriptor_t operand(List<cudnnBackendDescriptor_t> made, Operand o) {
        cudnnBackendDescriptor_t d = made(made, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        setEnum(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type(o.type()));
        set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, o.sizes());
        set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, o.strides());
        set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id(o));
        set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, ALIGNMENT);
        setBool(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, o.place() == Place.VIRTUAL);
        setBool(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, o.place() == Place.CONSTANT);
        return finished(d, "tensor");
    }

    private static cudnnBackendDescriptor_t operation(List<cudnnBackendDescriptor_t> made, Graph.Operation operation,
            cudnnBackendDescriptor_t[] o) {
        return switch (operation) {
            case Graph.Pointwise p -> pointwise(made, p, o);
            case Graph.Product(Operand a, Operand b, Operand y) -> {
                cudnnBackendDescriptor_t how = made(made, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
                setEnum(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
                finished(how, "matmul");
                cudnnBackendDescriptor_t d = made(made, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
                set(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, o[a.id()]);
                set(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, o[b.id()]);
                set(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, o[y.id()]);
                set(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
                yield finished(d, "matmul operation");
            }
            case Graph.Reduction(boolean greatest, Operand x, Operand y) -> {
                cudnnBackendDescriptor_t how = made(made, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
                setEnum(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
                        greatest ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD);
                setEnum(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
                finished(how, "reduction");
                cudnnBackendDescriptor_t d = made(made, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
                set(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, o[x.id()]);
                set(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, o[y.id()]);
                set(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
                yield finished(d, "reduction operation");
            }
            case Graph.Transposition(Operand x, Operand y) -> {
                cudnnBackendDescriptor_t d = made(made, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
                set(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, o[x.id()]);
                set(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, o[y.id()]);
                yield finished(d, "reshape operation");
            }
        };
    }

    private static cudnnBackendDescriptor_t pointwise(List<cudnnBackendDescriptor_t> made, Graph.Pointwise p,
            cudnnBackendDescriptor_t[] o) {
        int mode = switch (p.function()) {
            case ADD -> CUDNN_POINTWISE_ADD;
            case SUB -> CUDNN_POINTWISE_SUB;
            case MUL -> CUDNN_POINTWISE_MUL;
            case DIV -> CUDNN_POINTWISE_DIV;
            case EXP -> CUDNN_POINTWISE_EXP;
            case LOG -> CUDNN_POINTWISE_LOG;
            case GREATER_EQUAL -> CUDNN_POINTWISE_CMP_GE;
            case SELECT -> CUDNN_POINTWISE_BINARY_SELECT;
            case INDEX -> CUDNN_POINTWISE_GEN_INDEX;
            case IDENTITY -> CUDNN_POINTWISE_IDENTITY;
        };
        cudnnBackendDescriptor_t how = made(made, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        setEnum(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
        setEnum(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                p.function() == Graph.Function.GREATER_EQUAL ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
        if (p.axis() >= 0) {
            set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, p.axis());
        }
        finished(how, "pointwise");
        cudnnBackendDescriptor_t d = made(made, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        set(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
        set(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, o[p.x().id()]);
        if (p.b() != null) {
            set(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, o[p.b().id()]);
        }
        if (p.t() != null) {
            set(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, o[p.t().id()]);
        }
        set(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, o[p.y().id()]);
        return finished(d, "pointwise operation");
    }

    private static int type(DType type) {
        return switch (type) {
            case F32 -> CUDNN_DATA_FLOAT;
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            case I32 -> CUDNN_DATA_INT32;
            case BOOL -> CUDNN_DATA_BOOLEAN;
            case F64, I64, I8, U8 -> throw new IllegalArgumentException("graphs have no " + type);
        };
    }

    /** Numbers begin at 1. */
    private static long id(Operand o) {
        return o.id() + 1L;
    }

    private static cudnnBackendDescriptor_t made(List<cudnnBackendDescriptor_t> made, int type) {
        cudnnBackendDescriptor_t d = new cudnnBackendDescriptor_t();
        check(cudnnBackendCreateDescriptor(type, d), "cudnnBackendCreateDescriptor");
        made.add(d);
        return d;
    }

    private static cudnnBackendDescriptor_t finished(cudnnBackendDescriptor_t d, String what) {
        check(cudnnBackendFinalize(d), what);
        return d;
    }

    private static void set(cudnnBackendDescriptor_t d, int attribute, cudnnBackendDescriptor_t value) {
        set(d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.address());
    }

    private static void set(cudnnBackendDescriptor_t d, int attribute, int type, long... values) {
        try (LongPointer p = new LongPointer(values)) {
            set(d, attribute, type, values.length, p);
        }
    }

    private static void setEnum(cudnnBackendDescriptor_t d, int attribute, int type, int value) {
        try (IntPointer p = new IntPointer(new int[] {value})) {
            set(d, attribute, type, 1, p);
        }
    }

    private static void setBool(cudnnBackendDescriptor_t d, int attribute, boolean value) {
        try (BytePointer p = new BytePointer(new byte[] {(byte) (value ? 1 : 0)})) {
            set(d, attribute, CUDNN_TYPE_BOOLEAN, 1, p);
        }
    }

    private static void set(cudnnBackendDescriptor_t d, int attribute, int type, int count, Pointer values) {
        check(cudnnBackendSetAttribute(d, attribute, type, count, values), "attribute " + attribute);
    }

    private static void check(int status, String what) {
        if (status != CUDNN_STATUS_SUCCESS) {
            throw new GpuException("cuDNN, " + what + ": status " + status + ", "
                    + cudnnGetErrorString(status).getString());
        }
    }
}
