package dev.starling.tensor.program;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Analyses a captured work: which nodes are needed, which results are constant, how long values live. */
final class Flow {
    /** The end of a lifetime that does not end. */
    static final int FOREVER = Integer.MAX_VALUE;

    /** The nodes that are needed, in order. */
    final List<Node> nodes = new ArrayList<>();
    final List<Capture.Mark> marks = new ArrayList<>();
    /** By group of values that share memory: the last node that uses it. */
    final int[] lastUse;

    Flow(Capture capture, int[] outputs) {
        boolean[] alive = alive(capture, outputs);
        int next = 0;
        for (int i = 0; i <= alive.length; i++) {
            while (next < capture.marks.size() && capture.marks.get(next).node() == i) {
                marks.add(new Capture.Mark(nodes.size(), capture.marks.get(next++).label()));
            }
            if (i < alive.length && alive[i]) {
                nodes.add(capture.nodes.get(i));
            }
        }
        boolean[] constant = constants(capture);
        new Fusion(nodes, marks, capture, outputs).run();
        lastUse = new int[capture.given.size()];
        Arrays.fill(lastUse, -1);
        for (int i = 0; i < nodes.size(); i++) {
            for (int value : nodes.get(i).inputs) {
                lastUse[capture.group.get(value)] = i;
            }
            for (int value : nodes.get(i).outputs) {
                int group = capture.group.get(value);
                lastUse[group] = Math.max(lastUse[group], i);
            }
        }
        for (int value = 0; value < constant.length; value++) {
            if (constant[value]) {
                lastUse[capture.group.get(value)] = FOREVER;
            }
        }
        for (int value : outputs) {
            if (value >= 0) {
                lastUse[capture.group.get(value)] = FOREVER;
            }
        }
    }

    private static boolean[] alive(Capture capture, int[] outputs) {
        boolean[] needed = new boolean[capture.given.size()];
        for (int value : outputs) {
            if (value >= 0) {
                needed[value] = true;
            }
        }
        boolean[] alive = new boolean[capture.nodes.size()];
        for (int i = alive.length - 1; i >= 0; i--) {
            Node node = capture.nodes.get(i);
            alive[i] = node.op instanceof Update;
            for (int value : node.outputs) {
                alive[i] |= needed[value];
            }
            for (int value : node.inputs) {
                needed[value] |= alive[i];
            }
        }
        return alive;
    }

    /** Finds results that are equal in every run: computed from constants alone and never changed in place. */
    private boolean[] constants(Capture capture) {
        boolean[] constant = new boolean[capture.given.size()];
        for (int value = 0; value < constant.length; value++) {
            Tensor given = capture.given.get(value);
            constant[value] = given != null && capture.owned.contains(given);
        }
        boolean[] changed = new boolean[constant.length];
        for (Node node : nodes) {
            for (int value : node.changed()) {
                changed[capture.group.get(value)] = true;
            }
        }
        for (Node node : nodes) {
            boolean same = !(node.op instanceof Update || node.op instanceof Random);
            for (int value : node.inputs) {
                same &= constant[value];
            }
            for (int value : node.outputs) {
                same &= !changed[capture.group.get(value)];
            }
            node.constant = same;
            for (int value : node.outputs) {
                constant[value] = same;
            }
        }
        return constant;
    }
}
