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
import org.jspecify.annotations.Nullable;

/** A {@link Graph} planned with one engine of cuDNN's backend interface. Not safe for use by several threads. */
final class GraphPlan {
    /** {@code null} for a plan of a described device, which cannot be run. */
    private final @Nullable cudnnContext handle;
    private final Descriptor engine;
    private final Descriptor plan;
    private final long workspaceBytes;
    private final int memories;
    private final int count;
    /** Numbers of operands, their addresses, the workspace's address, and constants, eight bytes each. */
    private final MemorySegment values;
    private final RawPointer ids;
    private final RawPointer addresses;
    private final RawPointer workspace;
    /** The operands of a run: each run creates the descriptor anew, since it cannot be changed. */
    private final cudnnBackendDescriptor_t pack = new cudnnBackendDescriptor_t();

    /**
     * Constraints on an engine. Engines that accumulate in fewer than 32 bits are never used.
     *
     * @param deterministic whether it must give the same bits every time
     * @param fullPrecision whether it may not round operands before it multiplies
     * @param maxWorkspaceBytes the largest workspace that it may need
     */
    record Constraints(boolean deterministic, boolean fullPrecision, long maxWorkspaceBytes) {
        boolean allows(int note) {
            return switch (note) {
                case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION -> false;
                case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC -> !deterministic;
                case CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS -> !fullPrecision;
                default -> true;
            };
        }
    }

    /**
     * The device that plans are for: that of a handle, or a described one, to learn which plans it would have.
     *
     * @param handle the library's handle, or {@code null}
     * @param device the description, or {@code null}; plans for it cannot be run
     */
    record Target(@Nullable cudnnContext handle, @Nullable Descriptor device) { }

    /**
     * Makes a plan of descriptors that the library has finalized.
     *
     * @param engine the engine that {@code plan} was made of
     */
    GraphPlan(@Nullable cudnnContext handle, Graph graph, Descriptor engine, Descriptor plan, long workspaceBytes) {
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
            int slot = 2 * count + 1 + i;
            values.set(ValueLayout.JAVA_FLOAT, (long) slot * Long.BYTES, numbers.get(i).value());
            put(memories + i, GraphOperations.id(numbers.get(i)));
            put(count + memories + i, pointer(slot).address());
        }
    }

    private RawPointer pointer(int slot) {
        return RawPointer.of(values.address() + (long) slot * Long.BYTES);
    }

    private void put(int slot, long value) {
        values.setAtIndex(ValueLayout.JAVA_LONG, slot, value);
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /**
     * Queues the graph's work and returns the library's status.
     *
     * @param operands addresses of the operands in memory, in the order of their numbers
     */
    int run(long workspaceAddress, long... operands) {
        if (operands.length != memories) {
            throw new IllegalArgumentException("the graph has " + memories + " operands in memory, got "
                    + operands.length);
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

    /** Destroys the descriptors; no work queued with them may be under way. */
    void destroy() {
        plan.destroy();
        engine.destroy();
    }
}
