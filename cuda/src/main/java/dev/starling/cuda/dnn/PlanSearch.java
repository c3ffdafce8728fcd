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
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_ENGINE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_HEUR_MODE_A;
import static org.bytedeco.cuda.global.cudnn.CUDNN_HEUR_MODE_FALLBACK;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HANDLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_HEUR_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_INT64;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_NUMERICAL_NOTE;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.jspecify.annotations.Nullable;

/** Asks cuDNN for plans of one graph. */
final class PlanSearch {
    private static final int MAX_ENGINES = 64;
    private static final int MAX_NOTES = 32;

    private final GraphPlan.Target target;
    private final Graph graph;
    private final GraphPlan.Constraints constraints;
    private final int maxPlans;
    private final long endNs;
    private final PlanCandidates candidates = new PlanCandidates();

    private PlanSearch(GraphPlan.Target target, Graph graph, GraphPlan.Constraints constraints, int maxPlans,
            long endNs) {
        this.target = target;
        this.graph = graph;
        this.constraints = constraints;
        this.maxPlans = maxPlans;
        this.endNs = endNs;
    }

    /**
     * Returns the library's plans. Never throws: a refusal becomes the status of the result.
     *
     * @param maxPlans how many plans to look for
     * @param endNs when to stop looking for more than one plan, by {@link System#nanoTime}
     */
    static PlanCandidates find(GraphPlan.Target target, Graph graph, GraphPlan.Constraints constraints, int maxPlans,
            long endNs) {
        PlanSearch search = new PlanSearch(target, graph, constraints, maxPlans, endNs);
        try {
            search.run();
        } catch (CudnnException e) {
            search.candidates.onFailure("describing the graph", e.status());
        }
        return search.candidates;
    }

    private void run() {
        List<Descriptor> parts = candidates.parts();
        GraphOperations operations = new GraphOperations(graph, parts);
        Descriptor all = Descriptor.make(parts, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                .set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
                        graph.operations().stream().map(operations::describe).toArray(Descriptor[]::new));
        if (target.handle() != null) {
            all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle().address());
        }
        if (isFinished(all, "the graph")) {
            for (int mode : new int[] {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
                if (candidates.plans().isEmpty()) {
                    add(all, mode);
                }
            }
        }
    }

    private boolean isFinished(Descriptor descriptor, String what) {
        int status = descriptor.finish();
        if (status != CUDNN_STATUS_SUCCESS) {
            candidates.onFailure(what, status);
        }
        return status == CUDNN_STATUS_SUCCESS;
    }

    /** Adds plans with the engines that the library suggests, in its order. */
    private void add(Descriptor all, int mode) {
        Descriptor heuristic = Descriptor.make(candidates.parts(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all)
                .choice(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
        if (target.device() != null) {
            heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.device());
        }
        if (!isFinished(heuristic, "its engines")) {
            return;
        }
        List<Descriptor> engines = new ArrayList<>();
        int used = 0;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment addresses = arena.allocate(ValueLayout.JAVA_LONG, MAX_ENGINES);
            for (int i = 0; i < MAX_ENGINES; i++) {
                addresses.setAtIndex(ValueLayout.JAVA_LONG, i,
                        Descriptor.make(engines, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).address());
            }
            int found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES,
                    addresses);
            while (used < found && candidates.plans().size() < maxPlans
                    && (candidates.plans().isEmpty() || System.nanoTime() - endNs < 0)) {
                consider(engines.get(used++));
            }
        } finally {
            engines.subList(used, engines.size()).forEach(Descriptor::destroy);
        }
    }

    /** Plans with an engine if it meets the constraints; otherwise destroys it. */
    private void consider(Descriptor engine) {
        GraphPlan plan = null;
        try {
            if (suits(engine)) {
                plan = plan(engine);
            } else {
                candidates.countUnsuitable();
            }
        } catch (CudnnException e) {
            candidates.onFailure("an engine", e.status());
        } finally {
            if (plan == null) {
                engine.destroy();
            } else {
                candidates.add(plan);
            }
        }
    }

    private boolean suits(Descriptor configuration) {
        List<Descriptor> created = new ArrayList<>(1);
        try (Arena arena = Arena.ofConfined()) {
            Descriptor engine = Descriptor.make(created, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    arena.allocateFrom(ValueLayout.JAVA_LONG, engine.address()));
            MemorySegment notes = arena.allocate(ValueLayout.JAVA_INT, MAX_NOTES);
            int count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, notes);
            for (int i = 0; i < count; i++) {
                if (!constraints.allows(notes.getAtIndex(ValueLayout.JAVA_INT, i))) {
                    return false;
                }
            }
            return true;
        } finally {
            created.forEach(Descriptor::destroy);
        }
    }

    private @Nullable GraphPlan plan(Descriptor engine) {
        List<Descriptor> created = new ArrayList<>(1);
        GraphPlan plan = null;
        try (Arena arena = Arena.ofConfined()) {
            Descriptor d = Descriptor.make(created, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                    .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
            cudnnContext handle = target.handle();
            if (handle != null) {
                d.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle.address());
            } else {
                d.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, Objects.requireNonNull(target.device()));
            }
            if (isFinished(d, "a plan")) {
                MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG);
                d.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, bytes);
                long workspaceBytes = bytes.get(ValueLayout.JAVA_LONG, 0);
                if (workspaceBytes <= constraints.maxWorkspaceBytes()) {
                    plan = new GraphPlan(target.handle(), graph, engine, d, workspaceBytes);
                } else {
                    candidates.countUnsuitable();
                }
            }
            return plan;
        } finally {
            if (plan == null) {
                created.forEach(Descriptor::destroy);
            }
        }
    }
}
