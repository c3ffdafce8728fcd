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

/** Asks cuDNN for plans of one graph. */
final class PlanSearch {
    private static final int MAX_ENGINES = 64;
    private static final int MAX_NOTES = 32;

    private final GraphPlan.Target target;
    private final Graph graph;
    private final GraphPlan.Demands demands;
    private final int most;
    private final long endNs;
    private final Offer offer = new Offer();

    private PlanSearch(GraphPlan.Target target, Graph graph, GraphPlan.Demands demands, int most, long endNs) {
        this.target = target;
        this.graph = graph;
        this.demands = demands;
        this.most = most;
        this.endNs = endNs;
    }

    /**
     * Returns what the library offers. Never throws: what it refuses is the offer's status.
     *
     * @param most how many plans are wanted
     * @param endNs when to be content with those that there are, by {@link System#nanoTime}
     */
    static Offer find(GraphPlan.Target target, Graph graph, GraphPlan.Demands demands, int most, long endNs) {
        PlanSearch search = new PlanSearch(target, graph, demands, most, endNs);
        try {
            search.run();
        } catch (CudnnException e) {
            search.offer.failed("describing the graph", e.status());
        }
        return search.offer;
    }

    private void run() {
        List<Descriptor> parts = offer.parts();
        GraphOperations operations = new GraphOperations(graph, parts);
        Descriptor all = Descriptor.make(parts, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                .set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
                        graph.operations().stream().map(operations::describe).toArray(Descriptor[]::new));
        if (target.handle() != null) {
            all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle().address());
        }
        if (isFinished(all, "the graph")) {
            for (int advice : new int[] {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
                if (offer.plans().isEmpty()) {
                    add(all, advice);
                }
            }
        }
    }

    private boolean isFinished(Descriptor descriptor, String what) {
        int status = descriptor.finish();
        if (status != CUDNN_STATUS_SUCCESS) {
            offer.failed(what, status);
        }
        return status == CUDNN_STATUS_SUCCESS;
    }

    /** Adds plans by engines in the order in which the library expects them to be fast. */
    private void add(Descriptor all, int advice) {
        Descriptor adviser = Descriptor.make(offer.parts(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all)
                .choice(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, advice);
        if (target.device() != null) {
            adviser.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.device());
        }
        if (!isFinished(adviser, "its engines")) {
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
            int found = adviser.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES,
                    addresses);
            while (used < found && offer.plans().size() < most
                    && (offer.plans().isEmpty() || System.nanoTime() - endNs < 0)) {
                consider(engines.get(used++));
            }
        } finally {
            engines.subList(used, engines.size()).forEach(Descriptor::destroy);
        }
    }

    /** Plans with an engine if it meets the demands, else destroys it. */
    private void consider(Descriptor engine) {
        GraphPlan plan = null;
        try {
            if (suits(engine)) {
                plan = plan(engine);
            } else {
                offer.isUnsuitable();
            }
        } catch (CudnnException e) {
            offer.failed("an engine", e.status());
        } finally {
            if (plan == null) {
                engine.destroy();
            } else {
                offer.add(plan);
            }
        }
    }

    private boolean suits(Descriptor configuration) {
        List<Descriptor> made = new ArrayList<>(1);
        try (Arena arena = Arena.ofConfined()) {
            Descriptor engine = Descriptor.make(made, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    arena.allocateFrom(ValueLayout.JAVA_LONG, engine.address()));
            MemorySegment notes = arena.allocate(ValueLayout.JAVA_INT, MAX_NOTES);
            int count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, notes);
            for (int i = 0; i < count; i++) {
                if (!demands.bears(notes.getAtIndex(ValueLayout.JAVA_INT, i))) {
                    return false;
                }
            }
            return true;
        } finally {
            made.forEach(Descriptor::destroy);
        }
    }

    private GraphPlan plan(Descriptor engine) {
        List<Descriptor> made = new ArrayList<>(1);
        GraphPlan plan = null;
        try (Arena arena = Arena.ofConfined()) {
            Descriptor d = Descriptor.make(made, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                    .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
            if (target.handle() != null) {
                d.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle().address());
            } else {
                d.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.device());
            }
            if (isFinished(d, "a plan")) {
                MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG);
                d.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, bytes);
                long workspaceBytes = bytes.get(ValueLayout.JAVA_LONG, 0);
                if (workspaceBytes <= demands.mostWorkspaceBytes()) {
                    plan = new GraphPlan(target.handle(), graph, engine, d, workspaceBytes);
                } else {
                    offer.isUnsuitable();
                }
            }
            return plan;
        } finally {
            if (plan == null) {
                made.forEach(Descriptor::destroy);
            }
        }
    }
}
