package dev.starling.nn.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;

/**
 * What the loss is multiplied with so that f16 can hold the gradients: as much as goes. It is halved after a step whose
 * gradients overflowed, which changes nothing, and doubled after 2000 steps in a row without.
 */
final class LossScale {
    static final int PATIENCE = 2000;
    private static final double FIRST = 65536;
    /** Below this it is not f16 that makes gradients infinite. */
    private static final double LEAST = 0x1p-24;
    private static final String NOTE = "loss.scale";

    private double scale = FIRST;
    private int good;
    private long skipped;
    /** The scale and 1/scale on the device: in tensors, so that all steps are the same operations. */
    private Tensor factor;
    private Tensor inverse;
    private double shown;

    double scale() {
        return scale;
    }

    long skipped() {
        return skipped;
    }

    /** Brings the scale to a device; to be called at the beginning of a step. */
    void show(Device device) {
        if (factor == null || factor.device() != device) {
            close();
            factor = made(device);
            inverse = made(device);
            shown = 0;
        }
        if (shown != scale) {
            set(factor, scale);
            set(inverse, 1 / scale);
            shown = scale;
        }
    }

    private static Tensor made(Device device) {
        return Scope.detached(() -> Device.with(device, () -> Tensor.scalar(0)));
    }

    private static void set(Tensor target, double value) {
        try (Scope scope = Scope.open("loss scale")) {
            Tensor.apply(new Update.Assign(), target, target.scalarLike(value));
        }
    }

    Tensor multiply(Tensor loss) {
        return loss.mul(factor);
    }

    Tensor divide(Tensor gradient) {
        return gradient.mul(inverse);
    }

    /** Learns whether a step's gradients were finite. */
    void stepped(boolean finite) {
        if (!finite) {
            skipped++;
            good = 0;
            scale /= 2;
            if (scale < LEAST) {
                throw new TensorException(TensorException.Problem.ANOMALY, "training step", List.of(),
                        "gradients are infinite or NaN at whatever loss scale, even " + 2 * scale, "find the first "
                        + "operation that is not finite with Tape.detectAnomalies; weights are as before the step");
            }
        } else if (++good == PATIENCE) {
            good = 0;
            scale *= 2;
        }
    }

    void save(Map<String, String> notes) {
        notes.put(NOTE, scale + " " + good + " " + skipped);
    }

    /** Takes what {@link #save} noted; what was trained without a scale begins with the first. */
    void restore(Map<String, String> notes) {
        String[] note = notes.getOrDefault(NOTE, FIRST + " 0 0").split(" ");
        scale = Double.parseDouble(note[0]);
        good = Integer.parseInt(note[1]);
        skipped = Long.parseLong(note[2]);
    }

    void close() {
        if (factor != null) {
            factor.close();
            inverse.close();
            factor = null;
        }
    }
}
