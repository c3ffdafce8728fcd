package dev.starling.nn.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The factor by which the loss is multiplied so that f16 can represent the gradients. The factor is kept as large as
 * possible: it is halved after a step whose gradients overflowed, which is skipped, and doubled after 2000 consecutive
 * steps without overflow.
 */
final class LossScale {
    static final int GROWTH_INTERVAL = 2000;
    private static final double INITIAL = 65536;
    /** With a smaller scale, f16 is not the reason for infinite gradients. */
    private static final double MIN_SCALE = 0x1p-24;
    private static final String NOTE = "loss.scale";

    private double scale = INITIAL;
    private int finiteSteps;
    private long skipped;
    /** {@code null} before the first {@link #upload} and after {@link #close}. */
    private @Nullable Factors factors;
    private double uploaded;

    /** The scale and 1/scale on the device, stored in tensors so that all steps consist of the same operations. */
    private record Factors(Tensor scale, Tensor inverse) {
        Factors(Device device) {
            this(scalar(device), scalar(device));
        }
    }

    double scale() {
        return scale;
    }

    long skipped() {
        return skipped;
    }

    /** Copies the scale to a device. Must be called at the start of a step. */
    void upload(Device device) {
        if (factors == null || factors.scale.device() != device) {
            close();
            factors = new Factors(device);
            uploaded = 0;
        }
        if (uploaded != scale) {
            set(factors.scale, scale);
            set(factors.inverse, 1 / scale);
            uploaded = scale;
        }
    }

    private static Tensor scalar(Device device) {
        return Scope.detached(() -> Device.with(device, () -> Tensor.scalar(0)));
    }

    private static void set(Tensor target, double value) {
        try (Scope scope = Scope.open("loss scale")) {
            Tensor.apply(new Update.Assign(), target, target.scalarLike(value));
        }
    }

    Tensor multiply(Tensor loss) {
        return loss.mul(factors().scale);
    }

    Tensor divide(Tensor gradient) {
        return gradient.mul(factors().inverse);
    }

    private Factors factors() {
        return Objects.requireNonNull(factors, "upload first");
    }

    /** Adjusts the scale after a step whose gradients were finite or not. */
    void adjust(boolean finite) {
        if (!finite) {
            skipped++;
            finiteSteps = 0;
            scale /= 2;
            if (scale < MIN_SCALE) {
                throw new TensorException(TensorException.Problem.ANOMALY, "training step", List.of(),
                        "gradients are infinite or NaN at every loss scale down to " + 2 * scale, "find the first "
                        + "operation that is not finite with Tape.detectAnomalies; weights are those before the step");
            }
        } else if (++finiteSteps == GROWTH_INTERVAL) {
            finiteSteps = 0;
            scale *= 2;
        }
    }

    void save(Map<String, String> notes) {
        notes.put(NOTE, scale + " " + finiteSteps + " " + skipped);
    }

    /**
     * Returns what restores the notes of {@link #save}. A run that was trained without a scale starts with the initial
     * scale.
     *
     * @throws NumberFormatException if they are not such notes
     */
    Runnable restoring(Map<String, String> notes) {
        String[] note = notes.getOrDefault(NOTE, INITIAL + " 0 0").split(" ");
        if (note.length != 3) {
            throw new NumberFormatException(NOTE + " needs 3 numbers, got " + note.length);
        }
        double savedScale = Double.parseDouble(note[0]);
        int savedSteps = Integer.parseInt(note[1]);
        long savedSkipped = Long.parseLong(note[2]);
        return () -> {
            scale = savedScale;
            finiteSteps = savedSteps;
            skipped = savedSkipped;
        };
    }

    void close() {
        if (factors != null) {
            factors.scale.close();
            factors.inverse.close();
            factors = null;
        }
    }
}
