package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;

import java.util.ArrayList;
import java.util.List;

/** The plans that cuDNN has for a graph, in the order in which it expects them to be fast; possibly none. */
final class PlanCandidates {
    private final List<GraphPlan> plans = new ArrayList<>();
    /** Descriptors that the plans refer to. */
    private final List<Descriptor> parts = new ArrayList<>();
    private int status = CUDNN_STATUS_SUCCESS;
    private String failure = "";
    private int unsuitable;

    /** Returns the list of descriptors of graph and operations, to which the caller may add. */
    List<Descriptor> parts() {
        return parts;
    }

    /** Returns the plans. */
    List<GraphPlan> plans() {
        return plans;
    }

    void add(GraphPlan plan) {
        plans.add(plan);
    }

    /** Records why there is no plan yet; ignored once there is one. A transient failure outweighs others. */
    void onFailure(String what, int newStatus) {
        if (plans.isEmpty() && (status == CUDNN_STATUS_SUCCESS
                || CudnnException.isTransient(newStatus) && !CudnnException.isTransient(status))) {
            status = newStatus;
            failure = CudnnException.describe(what, newStatus);
        }
    }

    /** Counts an engine that does not meet the constraints. */
    void countUnsuitable() {
        unsuitable++;
    }

    /** Returns the status of the failure before the first plan, or 0. */
    int status() {
        return status;
    }

    /** Describes why there is no plan, or which failure came before the first. */
    String description() {
        String engines = unsuitable == 0 ? "" : "engines that do not meet the constraints: " + unsuitable;
        return failure.isEmpty() ? engines.isEmpty() ? "the library offers no engine" : engines
                : engines.isEmpty() ? failure : failure + "; " + engines;
    }

    /** Keeps one plan and destroys the others. */
    void choose(GraphPlan best) {
        plans.stream().filter(plan -> plan != best).forEach(GraphPlan::destroy);
        plans.retainAll(List.of(best));
    }

    /** Destroys all plans and descriptors; no work queued with them may be under way. */
    void destroy() {
        plans.forEach(GraphPlan::destroy);
        parts.forEach(Descriptor::destroy);
        plans.clear();
        parts.clear();
    }
}
