package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_INT64;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_VOID_PTR;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendCreateDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendDestroyDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendExecute;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendFinalize;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendSetAttribute;

import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Place;
import dev.starling.cuda.gpu.RawPointer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnBackendDescriptor_t;
import org.bytedeco.cuda.cudnn.cudnnContext;

/** A {@link Graph} by one engine of cuDNN's backend interface, until it is destroyed. Not safe for several threads. */
final class GraphPlan {
    private final cudnnContext handle;
    private final Descriptor engine;
    private final Descriptor plan;
    private final long workspaceBytes;
    private final int memories;
    private final int count;
    /** Numbers of operands, their addresses, the workspace's, and constants, eight bytes each. */
    private final MemorySegment values;
    private final RawPointer ids;
    private final RawPointer addresses;
    private final RawPointer workspace;
    /** The operands of a run: what it points to is made anew for each, since it cannot be changed. */
    private final cudnnBackendDescriptor_t pack = new cudnnBackendDescriptor_t();

    /**
     * What an engine has to be like. Those that sum in fewer than 32 bits are never taken.
     *
     * @param sameBits whether it gives the same bits every time
     * @param fullPrecision whether it rounds no operand before it multiplies
     * @param mostWorkspaceBytes what it may ask for to work in
     */
    record Demands(boolean sameBits, boolean fullPrecision, long mostWorkspaceBytes) {
        boolean bears(int note) {
            return switch (note) {
                case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION -> false;
                case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC -> !sameBits;
                case CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS -> !fullPrecision;
                default -> true;
            };
        }
    }

    /**
     * What plans are for: the device of a handle or, to learn what there would be, one that is described.
     *
     * @param handle the library's, or {@code null}
     * @param device the description, or {@code null}; plans for it cannot be run
     */
    record Target(cudnnContext handle, Descriptor device) { }

    /**
     * Makes one of what the library finished.
     *
     * @param engine what {@code plan} was made of
     */
    GraphPlan(cudnnContext handle, Graph graph, Descriptor engine, Descriptor plan, long workspaceBytes) {
        this.handle = handle;
        this.engine = engine;
        this.plan = plan;
        this.workspaceBytes = workspaceBytes;
        List<Operand> memory = graph.operands().stream().filter(o -> o.place() == Place.MEMORY).toList();
        List<Operand> numbers = graph.operands().stream().filter(o -> o.place() == Place.CONSTANT).toList();
        memories = memory.size();
        count = memories + numbers.size();
        values = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG, 2L * count + 1 + numbers.size());
        ids = pointer(0);
        addresses = pointer(count);
        workspace = pointer(2 * count);
        for (int i = 0; i < memories; i++) {
            put(i, GraphOperations.id(memory.get(i)));
        }
        for (int i = 0; i < numbers.size(); i++) {
            int place = 2 * count + 1 + i;
            values.set(ValueLayout.JAVA_FLOAT, (long) place * Long.BYTES, numbers.get(i).value());
            put(memories + i, GraphOperations.id(numbers.get(i)));
            put(count + memories + i, pointer(place).address());
        }
    }

    private RawPointer pointer(int place) {
        return new RawPointer().to(values.address() + (long) place * Long.BYTES);
    }

    private void put(int place, long value) {
        values.setAtIndex(ValueLayout.JAVA_LONG, place, value);
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /**
     * Queues the graph's work on operands in memory, whose addresses are given in the order of their numbers, and
     * returns the library's status.
     */
    int run(long workspaceAddress, long... operands) {
        if (operands.length != memories) {
            throw new IllegalArgumentException("the graph has " + memories + " operands, got " + operands.length);
        }
        for (int i = 0; i < memories; i++) {
            put(count + i, operands[i]);
        }
        put(2 * count, workspaceAddress);
        int status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack);
        if (status != CUDNN_STATUS_SUCCESS) {
            return status;
        }
        try {
            return execute();
        } finally {
            cudnnBackendDestroyDescriptor(pack);
        }
    }

    private int execute() {
        int status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
        if (status == CUDNN_STATUS_SUCCESS) {
            status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                    addresses);
        }
        if (status == CUDNN_STATUS_SUCCESS) {
            status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                    workspace);
        }
        if (status == CUDNN_STATUS_SUCCESS) {
            status = cudnnBackendFinalize(pack);
        }
        return status == CUDNN_STATUS_SUCCESS ? cudnnBackendExecute(handle, plan.pointer(), pack) : status;
    }

    /** Gives it back to the library; nothing that it queued may be under way. */
    void destroy() {
        plan.destroy();
        engine.destroy();
    }
}
