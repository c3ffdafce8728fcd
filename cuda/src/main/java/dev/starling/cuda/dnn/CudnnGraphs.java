package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.Patience;
import dev.starling.cuda.memory.LastUsed;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.spi.Block;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.function.Supplier;

/**
 * What cuDNN 9 computes on a stream by its graph interface. A graph is planned when it is first wanted. Of the engines
 * that suit, the one is taken that the library expects to be the fastest; if the property
 * {@code starling.cuda.autotune} is true, the fastest of the first eight, by timing them when the graph is first run,
 * as far as the time for that lasts. What engines work in is lent for the time of a call. Plans that were used longest
 * ago are given back, unless they are part of a program. Safe for use by several threads.
 *
 * <p>A graph that the library has no engine for is not asked for again. Where it fails for another reason (no memory, a
 * part of it that does not load), memory is freed and it is asked once more; then another way is taken, and it is asked
 * at later calls, after ever more of them.
 */
final class CudnnGraphs {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int MAX_PLANS = 512;
    private static final int MAX_TRIES = 8;
    private static final int TIMED_RUNS = 3;
    /** Until when the engines of one graph are compared, from the beginning of its planning. */
    private static final long GRAPH_NS = 2_000_000_000L;
    private static final long NANOS = 1_000_000_000L;
    private static final double NANOS_PER_MS = 1e6;

    private final Cudnn cudnn;
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Workspaces memory;
    private final String instead;
    private final GraphPlan.Target target;
    private final int tries = Boolean.getBoolean("starling.cuda.autotune") ? MAX_TRIES : 1;
    private final long tuningNs = Long.getLong("starling.cuda.autotune.seconds", 60) * NANOS;
    private final LastUsed<Record, Planned> plans;
    private boolean toldRefusal;
    private boolean toldFailure;

    /** What is known of a call. */
    private static final class Planned {
        /** {@code null} if the library has to be asked. */
        private Offer offer;
        private long endNs;
        /** How often programs that were taken down, and are there, run it. */
        private int kept;
        /** What was refused while programs may run it; {@code null} if nothing was. */
        private Offer left;
        /** With failures that may pass. */
        private final Patience patience = new Patience();
        private boolean failed;

        boolean isUsable() {
            return offer != null && !offer.plans().isEmpty();
        }
    }

    /**
     * Makes it for a library that is open.
     *
     * @param instead who computes what the library does not, and at what price
     */
    CudnnGraphs(Cudnn cudnn, String instead) {
        this(cudnn, instead, MAX_PLANS);
    }

    CudnnGraphs(Cudnn cudnn, String instead, int mostPlans) {
        this.cudnn = cudnn;
        this.gpu = cudnn.gpu();
        this.stream = cudnn.stream();
        this.memory = cudnn.memory();
        this.instead = instead;
        plans = new LastUsed<>(mostPlans, planned -> planned.kept == 0);
        target = new GraphPlan.Target(cudnn.handle(), null);
    }

    /**
     * Queues the work of a graph and returns whether the library could; where not, nothing was queued.
     *
     * @param call what the graph is made for; equal ones have equal graphs
     * @param demands on the engine, the same for equal calls
     * @param operands the addresses of what the graph has in memory, in the order of its operands
     */
    boolean run(Record call, GraphPlan.Demands demands, Supplier<Graph> graph, long... operands) {
        synchronized (cudnn) {
            return isRun(call, demands, graph, operands);
        }
    }

    private boolean isRun(Record call, GraphPlan.Demands demands, Supplier<Graph> graph, long... operands) {
        gpu.enter();
        Planned planned = plans.get(call);
        if (planned == null) {
            planned = new Planned();
            plans.put(call, planned);
            giveBack();
        }
        // A program is not made to wait for what has failed before.
        if (planned.offer == null && planned.patience.isOver() && !(planned.failed && memory.isKeeping())) {
            plan(call, planned, demands, graph.get());
        }
        if (!planned.isUsable()) {
            return false;
        }
        if (planned.offer.plans().size() > 1) {
            compare(call, planned, operands);
        }
        if (memory.isKeeping()) {
            keep(planned);
        }
        return planned.isUsable() && isQueued(call, planned, operands);
    }

    private void keep(Planned planned) {
        planned.kept++;
        memory.afterwards(() -> release(planned));
    }

    private void release(Planned planned) {
        synchronized (cudnn) {
            planned.kept--;
            if (planned.kept == 0 && planned.left != null) {
                destroy(planned.left);
                planned.left = null;
            }
        }
    }

    private boolean isQueued(Record call, Planned planned, long... operands) {
        int status = run(planned.offer.plans().getFirst(), operands);
        if (CudnnException.isShortage(status) && !memory.isKeeping()) {
            memory.trim();
            status = run(planned.offer.plans().getFirst(), operands);
        }
        if (CudnnException.isRefusal(status)) {
            LOG.log(Level.WARNING, "cuDNN refuses what it offered, {0}, for {1}: from now on {2}",
                    CudnnException.words("running a plan", status), call, instead);
            dismiss(planned);
            return false;
        }
        Descriptor.check(status, "cudnnBackendExecute");
        return true;
    }

    private void plan(Record call, Planned planned, GraphPlan.Demands demands, Graph graph) {
        gpu.enter();
        long begin = System.nanoTime();
        planned.endNs = begin + Math.min(GRAPH_NS, Math.max(0, tuningNs - PlanningTime.totalNs()));
        int most = planned.endNs == begin || memory.isKeeping() ? 1 : tries;
        Offer offer = PlanSearch.find(target, graph, demands, most, planned.endNs);
        boolean again = CudnnException.isShortage(offer.status())
                || offer.plans().isEmpty() && CudnnException.mayPass(offer.status());
        if (again && !memory.isKeeping()) {
            LOG.log(Level.DEBUG, "cuDNN fails to plan {0}, memory is freed: {1}", call, offer.words());
            offer.destroy();
            memory.trim();
            gpu.enter();
            offer = PlanSearch.find(target, graph, demands, most, planned.endNs);
        }
        long ns = System.nanoTime() - begin;
        PlanningTime.add(ns, 1);
        LOG.log(Level.DEBUG, "cuDNN has {0} plans for {1} after {2} ms, {3} s in all; before the first: {4}",
                offer.plans().size(), call, ns / NANOS_PER_MS, PlanningTime.seconds(),
                offer.status() == CUDNN_STATUS_SUCCESS ? "nothing" : offer.words());
        if (!offer.plans().isEmpty()) {
            planned.offer = offer;
            return;
        }
        offer.destroy();
        if (CudnnException.mayPass(offer.status())) {
            tellFailure(call, offer);
            planned.failed = true;
            planned.patience.failed();
        } else {
            tellRefusal(call, offer);
            planned.offer = offer;
        }
    }

    private void tellRefusal(Record call, Offer offer) {
        LOG.log(toldRefusal ? Level.DEBUG : Level.WARNING, "cuDNN has no engine for {0} ({1}): {2}{3}", call,
                offer.words(), instead, toldRefusal ? "" : ". Others like it are told at level DEBUG");
        toldRefusal = true;
    }

    private void tellFailure(Record call, Offer offer) {
        String remedy = CudnnException.isIncomplete(offer.status())
                ? "install all libraries of one version of cuDNN in one folder that the loader looks in"
                : "leave more of the GPU's memory free";
        LOG.log(toldFailure ? Level.DEBUG : Level.WARNING, "cuDNN fails to plan {0} ({1}): {2}, until it succeeds; "
                + "{3}{4}", call, offer.words(), instead, remedy,
                toldFailure ? "" : ". Others like it are told at level DEBUG");
        toldFailure = true;
    }

    /** Times plans, each of which computes the results once more, until there is no more time. */
    private void compare(Record call, Planned planned, long... operands) {
        long begin = System.nanoTime();
        GraphPlan best = null;
        long least = Long.MAX_VALUE;
        int compared = 0;
        for (GraphPlan plan : planned.offer.plans()) {
            if (best != null && System.nanoTime() - planned.endNs > 0) {
                break;
            }
            if (run(plan, operands) == CUDNN_STATUS_SUCCESS) {
                gpu.synchronize(stream);
                long start = System.nanoTime();
                for (int i = 0; i < TIMED_RUNS; i++) {
                    run(plan, operands);
                }
                gpu.synchronize(stream);
                long taken = System.nanoTime() - start;
                compared++;
                if (taken < least) {
                    least = taken;
                    best = plan;
                }
            }
        }
        LOG.log(Level.DEBUG, "of cuDNN''s plans for {0}, {1} were compared in {2} ms; the best takes {3} ms", call,
                compared, (System.nanoTime() - begin) / NANOS_PER_MS, least / NANOS_PER_MS / TIMED_RUNS);
        PlanningTime.add(System.nanoTime() - begin, 0);
        if (best == null) {
            dismiss(planned);
        } else {
            planned.offer.choose(best);
        }
    }

    /** Does without the library from now on. */
    private void dismiss(Planned planned) {
        if (planned.kept > 0) {
            planned.left = planned.offer;
        } else {
            destroy(planned.offer);
        }
        planned.offer = new Offer();
    }

    private void destroy(Offer offer) {
        gpu.synchronize(stream);
        gpu.enter();
        offer.destroy();
    }

    /** Gives back what was used longest ago, when the work that was queued with it is done. */
    private void giveBack() {
        List<Planned> overdue = memory.isKeeping() ? List.of() : plans.overdue();
        if (overdue.stream().anyMatch(Planned::isUsable)) {
            gpu.synchronize(stream);
            gpu.enter();
            overdue.stream().filter(Planned::isUsable).forEach(planned -> planned.offer.destroy());
        }
    }

    private int run(GraphPlan plan, long... operands) {
        // What the block is lent for next is queued behind this.
        Block block = plan.workspaceBytes() == 0 ? null : memory.allocate(plan.workspaceBytes());
        gpu.enter();
        try {
            return plan.run(block == null ? 0 : block.address(), operands);
        } finally {
            if (block != null) {
                memory.free(block);
            }
        }
    }
}
