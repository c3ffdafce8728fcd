package dev.starling.cuda.dnn;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_DOUBLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DEFAULT_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FMA_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FWD_MODE_INFERENCE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FWD_MODE_TRAINING;
import static org.bytedeco.cuda.global.cudnn.CUDNN_GRU;
import static org.bytedeco.cuda.global.cudnn.CUDNN_LINEAR_INPUT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_LSTM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_ALGO_STANDARD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_DOUBLE_BIAS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_NO_BIAS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_PADDED_IO_ENABLED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_RELU;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_TANH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_OP_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_UNIDIRECTIONAL;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateDropoutDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateRNNDataDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateRNNDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyDropoutDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyRNNDataDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyRNNDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNTempSpaceSizes;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNWeightParams;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNWeightSpaceSize;
import static org.bytedeco.cuda.global.cudnn.cudnnSetDropoutDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetRNNDataDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetRNNDescriptor_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnSetTensorNdDescriptor;

import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnDropoutStruct;
import org.bytedeco.cuda.cudnn.cudnnRNNDataStruct;
import org.bytedeco.cuda.cudnn.cudnnRNNStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;
import org.jspecify.annotations.Nullable;

/** A recurrent layer prepared for cuDNN: its descriptors, the memory it needs, and the layout of its weights. */
final class RecurrencePlan {
    private final cudnnContext handle;
    private final RecurrenceCall call;
    private final cudnnRNNStruct layer = new cudnnRNNStruct();
    private final cudnnDropoutStruct none = new cudnnDropoutStruct();
    private final cudnnRNNDataStruct x = new cudnnRNNDataStruct();
    private final cudnnRNNDataStruct y = new cudnnRNNDataStruct();
    private final cudnnTensorStruct state = new cudnnTensorStruct();
    private long weightBytes;
    private long workspaceBytes;
    private long reserveBytes;
    /** Determined once there is memory for the weights. */
    private @Nullable List<Part> parts;

    /**
     * A piece of the weights, in bytes.
     *
     * @param operand 0 for the input's weight, 1 for the state's, 2 and 3 for their biases
     * @param from offset in the operand
     * @param to offset in the library's memory of weights
     * @param bytes size
     */
    record Part(int operand, long from, long to, long bytes) { }

    private RecurrencePlan(cudnnContext handle, RecurrenceCall call) {
        this.handle = handle;
        this.call = call;
    }

    private void make(int algorithm, boolean tf32) {
        layer(algorithm, tf32);
        data(x, call.inputs());
        data(y, call.units());
        Descriptor.check(cudnnCreateTensorDescriptor(state), "cudnnCreateTensorDescriptor");
        Descriptor.check(cudnnSetTensorNdDescriptor(state, number(call.type()), 3,
                new int[] {1, call.batch(), call.units()}, new int[] {call.batch() * call.units(), call.units(), 1}),
                "cudnnSetTensorNdDescriptor");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment sizes = arena.allocate(JAVA_LONG, 2);
            SizeTPointer size = new SizeTPointer(RawPointer.of(sizes));
            SizeTPointer reserve = new SizeTPointer(RawPointer.of(sizes.asSlice(JAVA_LONG.byteSize())));
            Descriptor.check(cudnnGetRNNWeightSpaceSize(handle, layer, size), "cudnnGetRNNWeightSpaceSize");
            weightBytes = sizes.getAtIndex(JAVA_LONG, 0);
            Descriptor.check(cudnnGetRNNTempSpaceSizes(handle, layer, mode(), x, size, reserve),
                    "cudnnGetRNNTempSpaceSizes");
            workspaceBytes = sizes.getAtIndex(JAVA_LONG, 0);
            reserveBytes = call.kept() ? sizes.getAtIndex(JAVA_LONG, 1) : 0;
        }
    }

    /** Makes a plan, or throws a {@link GpuException} if the library refuses. */
    static RecurrencePlan of(cudnnContext handle, RecurrenceCall call, int algorithm, boolean tf32) {
        RecurrencePlan plan = new RecurrencePlan(handle, call);
        try {
            plan.make(algorithm, tf32);
            return plan;
        } catch (GpuException e) {
            plan.destroy();
            throw e;
        }
    }

    /** Destroys the descriptors, which the library reads only during calls. */
    void destroy() {
        if (!layer.isNull()) {
            cudnnDestroyRNNDescriptor(layer);
        }
        if (!none.isNull()) {
            cudnnDestroyDropoutDescriptor(none);
        }
        for (cudnnRNNDataStruct data : new cudnnRNNDataStruct[] {x, y}) {
            if (!data.isNull()) {
                cudnnDestroyRNNDataDescriptor(data);
            }
        }
        destroy(state);
    }

    private static void destroy(cudnnTensorStruct descriptor) {
        if (!descriptor.isNull()) {
            cudnnDestroyTensorDescriptor(descriptor);
        }
    }

    int mode() {
        return call.kept() ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
    }

    /**
     * Returns the algorithms to try, fastest first; all are deterministic. The one for small layers keeps the weights
     * in registers from step to step, and needs biases. Its limits are PyTorch's, which are lower where gradients are
     * needed.
     */
    static int[] algorithms(RecurrenceCall call) {
        boolean single = call.cell().gates() == 1;
        int maxUnits = call.kept() ? single ? 256 : 128 : single ? 384 : 192;
        return call.biased() && call.type() != DType.F64 && call.units() <= maxUnits
                ? new int[] {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, CUDNN_RNN_ALGO_STANDARD}
                : new int[] {CUDNN_RNN_ALGO_STANDARD};
    }

    private void layer(int algorithm, boolean tf32) {
        Descriptor.check(cudnnCreateDropoutDescriptor(none), "cudnnCreateDropoutDescriptor");
        Descriptor.check(cudnnSetDropoutDescriptor(none, handle, 0, null, 0, 0), "cudnnSetDropoutDescriptor");
        int cell = switch (call.cell()) {
            case TANH -> CUDNN_RNN_TANH;
            case RELU -> CUDNN_RNN_RELU;
            case GRU -> CUDNN_GRU;
            case LSTM -> CUDNN_LSTM;
        };
        int math = switch (call.type()) {
            case BF16, F16 -> CUDNN_TENSOR_OP_MATH;
            case F32 -> tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
            default -> CUDNN_DEFAULT_MATH;
        };
        Descriptor.check(cudnnCreateRNNDescriptor(layer), "cudnnCreateRNNDescriptor");
        Descriptor.check(cudnnSetRNNDescriptor_v8(layer, algorithm, cell,
                call.biased() ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                number(call.type()), call.type() == DType.F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, math,
                call.inputs(), call.units(), call.units(), 1, none, CUDNN_RNN_PADDED_IO_ENABLED),
                "cudnnSetRNNDescriptor_v8");
    }

    private void data(cudnnRNNDataStruct data, int width) {
        int[] lengths = new int[call.batch()];
        Arrays.fill(lengths, call.steps());
        Descriptor.check(cudnnCreateRNNDataDescriptor(data), "cudnnCreateRNNDataDescriptor");
        Descriptor.check(cudnnSetRNNDataDescriptor(data, number(call.type()), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                call.steps(), call.batch(), width, lengths, null), "cudnnSetRNNDataDescriptor");
    }

    private static int number(DType type) {
        return switch (type) {
            case F64 -> CUDNN_DATA_DOUBLE;
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            default -> CUDNN_DATA_FLOAT;
        };
    }

    cudnnRNNStruct layer() {
        return layer;
    }

    cudnnRNNDataStruct x() {
        return x;
    }

    cudnnRNNDataStruct y() {
        return y;
    }

    cudnnTensorStruct state() {
        return state;
    }

    long weightBytes() {
        return weightBytes;
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /** Returns the size of the reserve, 0 without one. */
    long reserveBytes() {
        return reserveBytes;
    }

    /** Returns which bytes to copy where. {@code space} is memory for the weights; offsets do not depend on it. */
    List<Part> parts(long space) {
        if (parts == null) {
            List<Part> all = new ArrayList<>();
            cudnnTensorStruct wide = new cudnnTensorStruct();
            cudnnTensorStruct narrow = new cudnnTensorStruct();
            try (Arena arena = Arena.ofConfined()) {
                Descriptor.check(cudnnCreateTensorDescriptor(wide), "cudnnCreateTensorDescriptor");
                Descriptor.check(cudnnCreateTensorDescriptor(narrow), "cudnnCreateTensorDescriptor");
                MemorySegment found = arena.allocate(JAVA_LONG, 2);
                PointerPointer<Pointer> matrix = new PointerPointer<>(RawPointer.of(found));
                PointerPointer<Pointer> bias = new PointerPointer<>(
                        RawPointer.of(found.asSlice(JAVA_LONG.byteSize())));
                for (int k = 0; k < 2 * call.cell().gates(); k++) {
                    Descriptor.check(cudnnGetRNNWeightParams(handle, layer, 0, weightBytes, RawPointer.of(space),
                            k, wide, matrix, narrow, bias), "cudnnGetRNNWeightParams");
                    add(all, k, found.getAtIndex(JAVA_LONG, 0) - space,
                            call.biased() ? found.getAtIndex(JAVA_LONG, 1) - space : -1);
                }
            } finally {
                destroy(wide);
                destroy(narrow);
            }
            parts = merged(all);
        }
        return parts;
    }

    /** Joins pieces that are contiguous on both sides. */
    private static List<Part> merged(List<Part> all) {
        List<Part> merged = new ArrayList<>();
        all.sort(Comparator.comparingInt(Part::operand).thenComparingLong(Part::from));
        for (Part p : all) {
            Part last = merged.isEmpty() ? null : merged.getLast();
            if (last != null && last.operand == p.operand && last.to + last.bytes == p.to) {
                merged.set(merged.size() - 1, new Part(p.operand, last.from, last.to, last.bytes + p.bytes));
            } else {
                merged.add(p);
            }
        }
        return merged;
    }

    /**
     * Adds a gate's pieces. The library numbers first the input's matrices by gate, in Starling's order, then the
     * state's.
     */
    private void add(List<Part> all, int k, long matrix, long bias) {
        int gates = call.cell().gates();
        long bytes = (long) call.units() * call.type().bytes();
        long width = bytes * (k < gates ? call.inputs() : call.units());
        all.add(new Part(k / gates, k % gates * width, matrix, width));
        if (bias >= 0) {
            all.add(new Part(2 + k / gates, k % gates * bytes, bias, bytes));
        }
    }
}
