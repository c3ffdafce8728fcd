package dev.starling.autograd;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Backward;
import java.util.ArrayList;
import java.util.List;

/** The vector-Jacobian product of a recorded step that is not a single operation. */
@FunctionalInterface
interface CustomVjp {
    /** See {@link dev.starling.tensor.op.Op#vjp}. */
    Tensor[] vjp(Backward b);

    /** Returns the name of the step in messages. */
    default String name() {
        return "recompute";
    }

    /** Returns the tapes that record on this thread, on which a step must be recorded, the innermost first. */
    static List<Tape> tapes() {
        List<Tape> tapes = new ArrayList<>();
        for (Recorder r = Recorder.current(); r instanceof Tape tape; r = tape.outer()) {
            tapes.add(tape);
        }
        return tapes;
    }
}
