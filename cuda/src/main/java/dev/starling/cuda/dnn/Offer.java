package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;

import java.util.ArrayList;
import java.util.List;

/** What cuDNN offers for a graph: plans in the order in which it expects them to be fast; none if it has none. */
final class Offer {
    private final List<GraphPlan> plans = new ArrayList<>();
    /** What the plans refer to. */
    private final List<Descriptor> parts = new ArrayList<>();
    private int status = CUDNN_STATUS_SUCCESS;
    private String failure = "";
    private int unsuitable;

    /** Returns the list of descriptors of graph and operations, for others to be added. */
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

    /** Notes why there is no plan before those that there are; what may pass is the weightiest. */
    void failed(String what, int newStatus) {
        if (plans.isEmpty() && (status == CUDNN_STATUS_SUCCESS
                || CudnnException.mayPass(newStatus) && !CudnnException.mayPass(status))) {
            status = newStatus;
            failure = CudnnException.words(what, newStatus);
        }
    }

    /** Notes an engine that does not meet the demands. */
    void isUnsuitable() {
        unsuitable++;
    }

    /** Returns what failed before the first plan was found, or 0. */
    int status() {
        return status;
    }

    /** Says why there is no plan, or none before the first. */
    String words() {
        String engines = unsuitable == 0 ? "" : "engines that do not meet the demands: " + unsuitable;
        return failure.isEmpty() ? engines.isEmpty() ? "no engine is offered" : engines
                : engines.isEmpty() ? failure : failure + "; " + engines;
    }

    /** Destroys all plans but one. */
    void choose(GraphPlan best) {
        plans.stream().filter(plan -> plan != best).forEach(GraphPlan::destroy);
        plans.retainAll(List.of(best));
    }

    /** Destroys all of it; nothing that it queued may be under way. */
    void destroy() {
        plans.forEach(GraphPlan::destroy);
        parts.forEach(Descriptor::destroy);
        plans.clear();
        parts.clear();
    }
}
