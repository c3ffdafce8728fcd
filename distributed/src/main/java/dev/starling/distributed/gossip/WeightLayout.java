package dev.starling.distributed.gossip;

import dev.starling.distributed.gossip.GossipMessage.Final;
import dev.starling.nn.Parameter;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The place of each of a model's tensors in a slot of memory: one after the other, each aligned to a cache line. */
final class WeightLayout {
    private static final long LINE = 64;

    private final List<Parameter> tensors = new ArrayList<>();
    private final List<Long> offsets = new ArrayList<>();
    private final long bytes;
    /** A description of the tensors, one per line. */
    private final String whole;
    private final String text;
    private final long checksum;

    /**
     * Determines the layout.
     *
     * @param chars maximum length of {@link #text}
     */
    WeightLayout(TrainingState state, int chars) {
        StringBuilder description = new StringBuilder();
        long end = 0;
        for (Map.Entry<String, Parameter> entry : state.tensors().entrySet()) {
            Parameter tensor = entry.getValue();
            if (entry.getKey().startsWith("model.") && tensor.value().dtype().isFloating()) {
                tensors.add(tensor);
                offsets.add(end);
                end += (tensor.value().spec().bytes() + LINE - 1) / LINE * LINE;
                description.append(entry.getKey()).append(' ').append(tensor.value().dtype()).append(tensor.shape())
                        .append('\n');
            }
        }
        bytes = Math.max(end, LINE);
        whole = description.toString();
        text = whole.length() <= chars ? whole : whole.substring(0, Math.max(0, whole.lastIndexOf('\n', chars)));
        checksum = new RunSettings(Map.of("layout", whole)).checksum();
    }

    /** Returns the size of a slot. */
    long bytes() {
        return bytes;
    }

    /** Returns a description of the first tensors, one per line; with a line break at the end only if these are all. */
    String text() {
        return text;
    }

    /** Returns a checksum of 64 bits; layouts with equal checksums count as equal. */
    long checksum() {
        return checksum;
    }

    /** Describes the first difference from the layout of which this is the text. */
    String difference(String theirs) {
        String[] a = theirs.split("\n");
        String[] b = whole.split("\n");
        for (int i = 0; i < Math.min(a.length, b.length); i++) {
            if (!a[i].equals(b[i])) {
                return "it has " + a[i] + ", this rank has " + b[i];
            }
        }
        return theirs.endsWith("\n") ? "it has " + a.length + " tensors, this rank has " + b.length
                : "its tensors after the first " + a.length + " differ";
    }

    /** Returns tensors over a slot's memory; the caller closes them. */
    Tensor[] over(MemorySegment slot) {
        Tensor[] views = new Tensor[tensors.size()];
        for (int i = 0; i < views.length; i++) {
            Tensor weights = tensors.get(i).value();
            MemorySegment part = slot.asSlice(offsets.get(i), weights.spec().bytes());
            views[i] = Scope.detached(() -> Tensor.wrap(part, weights.dtype(), weights.shape().dims()));
        }
        return views;
    }

    /** Copies the weights into a slot. */
    void write(Tensor[] slot) {
        for (int i = 0; i < slot.length; i++) {
            try (Scope scope = Scope.open("publish")) {
                Tensor.apply(new Update.Assign(), slot[i], tensors.get(i).value().to(Device.cpu()));
            }
        }
    }

    /** Returns whether all received weights are finite. */
    static boolean isFinite(Tensor[] slot) {
        for (Tensor received : slot) {
            if (!received.device().backend().isFinite(received)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Replaces the weights by the mean of these, which count for {@code own} examples, and the final weights of peers,
     * as far as those are finite.
     */
    void average(long own, List<Peer> peers) {
        double count = own;
        for (Peer peer : peers) {
            if (peer.inbox == Peer.Inbox.FINAL && peer.update instanceof Final(long examples)
                    && isFinite(peer.received)) {
                mix(peer.received, count / (count + examples));
                count += examples;
            }
        }
    }

    /**
     * Mixes a slot into the weights, whose own share is {@code own}; frozen weights stay unchanged, unless {@code own}
     * is 0, which replaces all weights by those of the slot.
     */
    void mix(Tensor[] slot, double own) {
        for (int i = 0; i < slot.length; i++) {
            Parameter tensor = tensors.get(i);
            if (own > 0 && !tensor.isBuffer() && !tensor.requiresGradient()) {
                continue;
            }
            try (Scope scope = Scope.open("mix")) {
                Tensor weights = tensor.value();
                Tensor received = slot[i].to(weights.device()).to(weights.dtype());
                Tensor.apply(own == 0 ? new Update.Assign() : new Update.Blend(own, 1 - own), weights, received);
            }
        }
    }
}
