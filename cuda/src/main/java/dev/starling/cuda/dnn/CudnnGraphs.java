package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;

import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.RetryBackoff;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.memory.LruMap;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Block;
import java.lang.System.Logger.Level;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Runs graphs on a stream by cuDNN 9's graph interface. A graph is planned at its first use. Among the suitable
 * engines, the one that the library expects to be fastest is used. If the configuration asks for it, the first eight
 * are timed at the graph's first run, within a limit of time, and the fastest is used. Engines get their workspace for
 * one call at a time. The plans used least recently are destroyed unless a captured program contains them. Safe for use
 * by several threads.
 *
 * <p>The library is asked only once about a graph for which it has no engine. If planning or a run fails for another
 * reason (no memory for a kernel or a workspace, a component library that cannot be loaded), memory is freed and the
 * attempt repeated once; then the fallback computes the call, and later calls, at growing distances, try again.
 */
final class CudnnGraphs {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int MAX_PLANS = 512;
    private static final int MAX_TRIES = 8;
    private static final int TIMED_RUNS = 3;
    /** How long the engines of one graph are compared, from the start of its planning. */
    private static final long GRAPH_NS = 2_000_000_000L;
    private static final double NANOS_PER_MS = 1e6;
    private static final Answer NO_PLAN = new Answer.Declined("cuDNN has no plan for it");

    private final Cudnn cudnn;
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Workspaces memory;
    private final String fallback;
    private final int tries;
    private final long tuningNs;
    private final LruMap<Record, Planned> plans;
    private boolean loggedRefusal;
    private boolean loggedFailure;

    /** The state of a call: its plans, or why it has none. */
    private static final class Planned {
        /** {@code null} if the library has to be asked (again). */
        private @Nullable PlanCandidates candidates;
        private long endNs;
        /** How many captured programs run it and are not closed yet. */
        private int captures;
        /** Rejected plans that captured programs may still run; {@code null} without any. */
        private @Nullable PlanCandidates retired;
        /** For transient failures. */
        private final RetryBackoff backoff = new RetryBackoff();
        /** Whether the last attempt failed. */
        private boolean failed;

        /** Returns the plans of a call that has been planned. */
        PlanCandidates candidates() {
            return Objects.requireNonNull(candidates);
        }

        boolean isUsable() {
            return candidates != null && !candidates.plans().isEmpty();
        }
    }

    /**
     * Makes a cache of graphs, for use once the library is open.
     *
     * @param fallback what happens without the library and what it costs, for the log
     */
    CudnnGraphs(Cudnn cudnn, CudaConfig config, String fallback) {
        this(cudnn, config, fallback, MAX_PLANS);
    }

    CudnnGraphs(Cudnn cudnn, CudaConfig config, String fallback, int maxPlans) {
        this.cudnn = cudnn;
        this.gpu = cudnn.gpu();
        this.stream = cudnn.stream();
        this.memory = cudnn.memory();
        this.fallback = fallback;
        tries = config.autotune() ? MAX_TRIES : 1;
        tuningNs = config.autotuneLimit().toNanos();
        plans = new LruMap<>(maxPlans, planned -> planned.captures == 0);
    }

    /** Returns the addresses of tensors, without those that are {@code null}. */
    static long[] addresses(@Nullable Tensor... tensors) {
        return Arrays.stream(tensors).filter(Objects::nonNull).mapToLong(Tensor::address).toArray();
    }

    /**
     * Queues a graph's work, or declines it if the library cannot compute it.
     *
     * @param call key of the graph; equal calls have equal graphs
     * @param constraints requirements on the engine, the same for equal calls
     * @param operands addresses of the graph's operands in memory, in their order
     */
    Answer run(Record call, GraphPlan.Constraints constraints, Supplier<Graph> graph, long... operands) {
        synchronized (cudnn) {
            gpu.enter();
            Planned planned = plans.get(call);
            if (planned == null) {
                planned = new Planned();
                plans.put(call, planned);
                evict();
            }
            // During a capture, no retry of what failed before: it would delay the program.
            if (planned.failed && memory.isCapturing() || !planned.backoff.isDue()) {
                return NO_PLAN;
            }
            if (planned.candidates == null) {
                plan(call, planned, constraints, graph.get());
            }
            if (!planned.isUsable()) {
                return NO_PLAN;
            }
            if (planned.candidates().plans().size() > 1) {
                compare(call, planned, operands);
            }
            if (memory.isCapturing()) {
                retain(planned);
            }
            return planned.isUsable() ? execute(call, planned, operands) : NO_PLAN;
        }
    }

    private void retain(Planned planned) {
        planned.captures++;
        memory.onGraphClose(() -> release(planned));
    }

    private void release(Planned planned) {
        synchronized (cudnn) {
            planned.captures--;
            if (planned.captures == 0 && planned.retired != null) {
                destroy(planned.retired);
                planned.retired = null;
            }
        }
    }

    private Answer execute(Record call, Planned planned, long... operands) {
        int status = cudnn.attempt(() -> run(planned.candidates().plans().getFirst(), operands));
        if (CudnnException.isTransient(status) && !memory.isCapturing()) {
            onFailure(call, planned, status, CudnnException.describe("running a plan", status));
            return NO_PLAN;
        }
        if (CudnnException.isRefusal(status)) {
            LOG.log(Level.WARNING, "cuDNN rejects its own plan for {0} ({1}): from now on {2}", call,
                    CudnnException.describe("running a plan", status), fallback);
            disable(planned);
            return NO_PLAN;
        }
        Descriptor.check(status, "cudnnBackendExecute");
        planned.failed = false;
        return Answer.HANDLED;
    }

    private void plan(Record call, Planned planned, GraphPlan.Constraints constraints, Graph graph) {
        gpu.enter();
        long begin = System.nanoTime();
        planned.endNs = begin + Math.min(GRAPH_NS, Math.max(0, tuningNs - PlanningTime.totalNs()));
        GraphPlan.Target target = new GraphPlan.Target(cudnn.handle(), null);
        int maxPlans = planned.endNs == begin || memory.isCapturing() ? 1 : tries;
        PlanCandidates candidates = PlanSearch.find(target, graph, constraints, maxPlans, planned.endNs);
        boolean retry = CudnnException.isShortage(candidates.status())
                || candidates.plans().isEmpty() && CudnnException.isTransient(candidates.status());
        if (retry && !memory.isCapturing()) {
            LOG.log(Level.DEBUG, "cuDNN cannot plan {0}, retrying after freeing memory: {1}", call,
                    candidates.description());
            candidates.destroy();
            memory.trim();
            gpu.enter();
            candidates = PlanSearch.find(target, graph, constraints, maxPlans, planned.endNs);
        }
        long ns = System.nanoTime() - begin;
        PlanningTime.add(ns, 1);
        LOG.log(Level.DEBUG, "cuDNN has {0} plans for {1} after {2} ms, {3} s in total; failures before the first: {4}",
                candidates.plans().size(), call, ns / NANOS_PER_MS, PlanningTime.seconds(),
                candidates.status() == CUDNN_STATUS_SUCCESS ? "none" : candidates.description());
        if (!candidates.plans().isEmpty()) {
            planned.candidates = candidates;
            return;
        }
        candidates.destroy();
        if (CudnnException.isTransient(candidates.status())) {
            onFailure(call, planned, candidates.status(), candidates.description());
        } else {
            logRefusal(call, candidates);
            planned.candidates = candidates;
        }
    }

    private void logRefusal(Record call, PlanCandidates candidates) {
        LOG.log(loggedRefusal ? Level.DEBUG : Level.WARNING, "cuDNN has no engine for {0} ({1}): {2}{3}", call,
                candidates.description(), fallback, loggedRefusal ? "" : ". Further cases are logged at level DEBUG");
        loggedRefusal = true;
    }

    /** Leaves a call to the fallback until a later attempt. */
    private void onFailure(Record call, Planned planned, int status, String description) {
        planned.failed = true;
        planned.backoff.onFailure();
        String remedy = CudnnException.isIncomplete(status)
                ? "install all libraries of one version of cuDNN in one folder on the loader's path"
                : "leave more of the GPU's memory free";
        LOG.log(loggedFailure ? Level.DEBUG : Level.WARNING, "cuDNN cannot compute {0} ({1}): {2}, until a later "
                + "attempt succeeds; {3}{4}", call, description, fallback, remedy,
                loggedFailure ? "" : ". Further cases are logged at level DEBUG");
        loggedFailure = true;
    }

    /** Times plans until the time limit; every run computes the results again. */
    private void compare(Record call, Planned planned, long... operands) {
        long begin = System.nanoTime();
        GraphPlan best = null;
        long fastestNs = Long.MAX_VALUE;
        int compared = 0;
        int failure = CUDNN_STATUS_SUCCESS;
        for (GraphPlan plan : planned.candidates().plans()) {
            if (best != null && System.nanoTime() - planned.endNs > 0) {
                break;
            }
            int status = cudnn.attempt(() -> run(plan, operands));
            gpu.synchronize(stream);
            long start = System.nanoTime();
            for (int i = 0; i < TIMED_RUNS && status == CUDNN_STATUS_SUCCESS; i++) {
                status = cudnn.attempt(() -> run(plan, operands));
            }
            if (status == CUDNN_STATUS_SUCCESS) {
                gpu.synchronize(stream);
                long elapsedNs = System.nanoTime() - start;
                compared++;
                if (elapsedNs < fastestNs) {
                    fastestNs = elapsedNs;
                    best = plan;
                }
            } else if (!CudnnException.isTransient(failure)) {
                failure = status;
            }
        }
        LOG.log(Level.DEBUG, "compared {1} of cuDNN''s plans for {0} in {2} ms; the fastest takes {3} ms", call,
                compared, (System.nanoTime() - begin) / NANOS_PER_MS, fastestNs / NANOS_PER_MS / TIMED_RUNS);
        PlanningTime.add(System.nanoTime() - begin, 0);
        if (best != null) {
            planned.candidates().choose(best);
        } else if (CudnnException.isTransient(failure)) {
            destroy(planned.candidates());
            planned.candidates = null;
            onFailure(call, planned, failure, CudnnException.describe("running a plan", failure));
        } else {
            disable(planned);
        }
    }

    /** Stops the use of the library for a call permanently. */
    private void disable(Planned planned) {
        if (planned.captures > 0) {
            planned.retired = planned.candidates;
        } else {
            destroy(planned.candidates());
        }
        planned.candidates = new PlanCandidates();
    }

    private void destroy(PlanCandidates candidates) {
        gpu.synchronize(stream);
        gpu.enter();
        candidates.destroy();
    }

    /** Destroys the plans used least recently, after the work queued with them. */
    private void evict() {
        List<Planned> evicted = memory.isCapturing() ? List.of() : plans.evict();
        if (evicted.stream().anyMatch(Planned::isUsable)) {
            gpu.synchronize(stream);
            gpu.enter();
            evicted.stream().filter(Planned::isUsable).forEach(planned -> planned.candidates().destroy());
        }
    }

    /** Queues a plan's work and returns the library's status. */
    private int run(GraphPlan plan, long... operands) {
        // The block's next use is queued behind this call.
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
