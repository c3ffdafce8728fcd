package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINECFG_ENGINE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINEHEUR_RESULTS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_ENGINE_NUMERICAL_NOTE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATIONGRAPH_OPS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_HEUR_MODE_A;
import static org.bytedeco.cuda.global.cudnn.CUDNN_HEUR_MODE_FALLBACK;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HEUR_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_INT64;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_NUMERICAL_NOTE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_VOID_PTR;
import static org.bytedeco.cuda.global.cudnn.cudnnBackendExecute;

import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Place;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;

/**
 * A {@link Graph} that cuDNN's backend interface has found an engine for. It lives as long as the process, and so do
 * the descriptors that it is made of.
 */
final class GraphPlan {
    private static final int MOST_ENGINES = 64;
    private static final int MOST_NOTES = 32;

    private final cudnnContext handle;
    private final Descriptor plan;
    private final long workspaceBytes;
    private final LongPointer ids;
    private final LongPointer addresses;
    private final int memories;
    /** Constants are read when a plan is carried out. */
    private final List<FloatPointer> constants = new ArrayList<>();

    /**
     * What an engine has to be like. Those that sum in fewer than 32 bits are never taken.
     *
     * @param sameBits whether it gives the same bits every time
     * @param fullPrecision whether it rounds no operand before it multiplies
     * @param mostWorkspaceBytes what it may ask for to work in
     */
    record Demands(boolean sameBits, boolean fullPrecision, long mostWorkspaceBytes) {
        private boolean bears(int note) {
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

    private GraphPlan(cudnnContext handle, Graph graph, Descriptor plan, long workspaceBytes) {
        this.handle = handle;
        this.plan = plan;
        this.workspaceBytes = workspaceBytes;
        List<Operand> memory = graph.operands().stream().filter(o -> o.place() == Place.MEMORY).toList();
        List<Operand> numbers = graph.operands().stream().filter(o -> o.place() == Place.CONSTANT).toList();
        memories = memory.size();
        ids = new LongPointer(memories + numbers.size());
        addresses = new LongPointer(memories + numbers.size());
        for (int i = 0; i < memories; i++) {
            ids.put(i, GraphOperations.id(memory.get(i)));
        }
        for (Operand number : numbers) {
            FloatPointer value = new FloatPointer(number.value());
            ids.put(memories + constants.size(), GraphOperations.id(number));
            addresses.put(memories + constants.size(), value.address());
            constants.add(value);
        }
    }

    /** Returns plans for a graph, the one that the library expects to be the fastest first; none if it has none. */
    static List<GraphPlan> of(Target target, Graph graph, Demands demands, int most) {
        List<Descriptor> made = new ArrayList<>();
        List<GraphPlan> plans = new ArrayList<>();
        try {
            GraphOperations operations = new GraphOperations(graph, made);
            Descriptor all = Descriptor.make(made, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
                            graph.operations().stream().map(operations::describe).toArray(Descriptor[]::new));
            if (target.handle != null) {
                all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle.address());
            }
            if (all.isFinished()) {
                for (int advice : new int[] {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
                    if (plans.isEmpty()) {
                        add(plans, most, made, target, graph, all, advice, demands);
                    }
                }
            }
            return plans;
        } finally {
            if (plans.isEmpty()) {
                made.forEach(Descriptor::destroy);
            }
        }
    }

    /** Adds plans by engines in the order in which the library expects them to be fast. */
    private static void add(List<GraphPlan> plans, int most, List<Descriptor> made, Target target, Graph graph,
            Descriptor all, int advice, Demands demands) {
        Descriptor adviser = Descriptor.make(made, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all)
                .choice(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, advice);
        if (target.device != null) {
            adviser.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.device);
        }
        if (!adviser.isFinished()) {
            return;
        }
        List<Descriptor> engines = new ArrayList<>();
        List<Descriptor> used = new ArrayList<>();
        try (LongPointer addresses = new LongPointer(MOST_ENGINES)) {
            for (int i = 0; i < MOST_ENGINES; i++) {
                addresses.put(i, Descriptor.make(engines, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).address());
            }
            int found = adviser.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES,
                    addresses);
            for (int i = 0; i < found && plans.size() < most; i++) {
                GraphPlan plan = suits(engines.get(i), demands)
                        ? of(engines.get(i), target, graph, demands.mostWorkspaceBytes) : null;
                if (plan != null) {
                    plans.add(plan);
                    used.add(engines.get(i));
                }
            }
        } finally {
            engines.stream().filter(e -> !used.contains(e)).forEach(Descriptor::destroy);
        }
    }

    private static boolean suits(Descriptor configuration, Demands demands) {
        List<Descriptor> made = new ArrayList<>(1);
        try (LongPointer address = new LongPointer(1); IntPointer notes = new IntPointer(MOST_NOTES)) {
            Descriptor engine = Descriptor.make(made, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    address.put(engine.address()));
            int count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, notes);
            for (int i = 0; i < count; i++) {
                if (!demands.bears(notes.get(i))) {
                    return false;
                }
            }
            return true;
        } finally {
            made.forEach(Descriptor::destroy);
        }
    }

    private static GraphPlan of(Descriptor engine, Target target, Graph graph, long mostWorkspaceBytes) {
        List<Descriptor> made = new ArrayList<>(1);
        Descriptor plan = Descriptor.make(made, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
        if (target.handle != null) {
            plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle.address());
        } else {
            plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.device);
        }
        if (plan.isFinished()) {
            try (LongPointer bytes = new LongPointer(1)) {
                plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, bytes);
                if (bytes.get() <= mostWorkspaceBytes) {
                    return new GraphPlan(target.handle, graph, plan, bytes.get());
                }
            }
        }
        plan.destroy();
        return null;
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /**
     * Queues the graph's work on operands in memory, whose addresses are given in the order of their numbers, and
     * returns the library's status.
     */
    int run(long workspace, long... operands) {
        if (operands.length != memories) {
            throw new IllegalArgumentException("the graph has " + memories + " operands, got " + operands.length);
        }
        for (int i = 0; i < memories; i++) {
            addresses.put(i, operands[i]);
        }
        List<Descriptor> made = new ArrayList<>(1);
        Descriptor pack = Descriptor.make(made, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        try {
            int n = memories + constants.size();
            pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids)
                    .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, addresses)
                    .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
            return !pack.isFinished() ? CUDNN_STATUS_BAD_PARAM
                    : cudnnBackendExecute(handle, plan.pointer(), pack.pointer());
        } finally {
            pack.destroy();
        }
    }
}
