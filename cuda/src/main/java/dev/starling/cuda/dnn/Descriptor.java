package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BOOLEAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_INT32;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BOOLEAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_DATA_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_INT64;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendCreateDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendDestroyDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendFinalize;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendGetAttribute;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendSetAttribute;

import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnBackendDescriptor_t;

/** An object of cuDNN's backend interface: created, given attributes, and finalized before others refer to it. */
final class Descriptor {
    private final cudnnBackendDescriptor_t descriptor = new cudnnBackendDescriptor_t();

    private Descriptor(int type) {
        check(cudnnBackendCreateDescriptor(type, descriptor), "cudnnBackendCreateDescriptor");
    }

    /** Creates a descriptor of a type of {@code cudnnBackendDescriptorType_t} and adds it to a list. */
    static Descriptor make(List<Descriptor> created, int type) {
        Descriptor d = new Descriptor(type);
        created.add(d);
        return d;
    }

    /** Returns the descriptor in the type of the bindings. */
    cudnnBackendDescriptor_t pointer() {
        return descriptor;
    }

    long address() {
        return descriptor.address();
    }

    Descriptor set(int attribute, Descriptor... values) {
        long[] addresses = new long[values.length];
        for (int i = 0; i < values.length; i++) {
            addresses[i] = values[i].address();
        }
        return set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, addresses);
    }

    /** Sets an attribute of 64-bit values: numbers, handles or pointers. */
    Descriptor set(int attribute, int type, long... values) {
        try (Arena arena = Arena.ofConfined()) {
            return set(attribute, type, values.length, arena.allocateFrom(ValueLayout.JAVA_LONG, values));
        }
    }

    Descriptor longs(int attribute, long... values) {
        return set(attribute, CUDNN_TYPE_INT64, values);
    }

    /** Sets an attribute that is a value of the given enumeration. */
    Descriptor choice(int attribute, int type, int value) {
        try (Arena arena = Arena.ofConfined()) {
            return set(attribute, type, 1, arena.allocateFrom(ValueLayout.JAVA_INT, value));
        }
    }

    Descriptor number(int attribute, float value) {
        try (Arena arena = Arena.ofConfined()) {
            return set(attribute, CUDNN_TYPE_FLOAT, 1, arena.allocateFrom(ValueLayout.JAVA_FLOAT, value));
        }
    }

    Descriptor flag(int attribute, boolean value) {
        try (Arena arena = Arena.ofConfined()) {
            return set(attribute, CUDNN_TYPE_BOOLEAN, 1,
                    arena.allocateFrom(ValueLayout.JAVA_BYTE, (byte) (value ? 1 : 0)));
        }
    }

    Descriptor type(int attribute, DType type) {
        return choice(attribute, CUDNN_TYPE_DATA_TYPE, switch (type) {
            case F32 -> CUDNN_DATA_FLOAT;
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            case I32 -> CUDNN_DATA_INT32;
            case BOOL -> CUDNN_DATA_BOOLEAN;
            case F64, I64, I8, U8 -> throw new IllegalArgumentException("cuDNN graphs have no " + type);
        });
    }

    Descriptor set(int attribute, int type, long count, MemorySegment values) {
        int status = cudnnBackendSetAttribute(descriptor, attribute, type, count, RawPointer.of(values));
        check(status, status == CUDNN_STATUS_SUCCESS ? "" : "attribute " + attribute);
        return this;
    }

    /** Finalizes the descriptor; throws an exception that names it if that fails. */
    Descriptor finish(String name) {
        check(finish(), name);
        return this;
    }

    /** Finalizes the descriptor and returns the library's status. */
    int finish() {
        return cudnnBackendFinalize(descriptor);
    }

    /** Reads at most {@code max} values of an attribute and returns how many it has read. */
    int get(int attribute, int type, int max, MemorySegment values) {
        long[] count = new long[1];
        int status = cudnnBackendGetAttribute(descriptor, attribute, type, max, count,
                RawPointer.of(values));
        check(status, status == CUDNN_STATUS_SUCCESS ? "" : "attribute " + attribute);
        return (int) Math.min(count[0], max);
    }

    void destroy() {
        cudnnBackendDestroyDescriptor(descriptor);
    }

    static void check(int status, String what) {
        if (status != CUDNN_STATUS_SUCCESS) {
            throw new CudnnException(status, what);
        }
    }
}
