package dev.starling.nn.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.program.Program;

/**
 * Runs the forward and backward pass of a step as a captured program. A form of batch that occurs twice in a row is
 * captured the second time and replayed from then on. Other forms, such as a smaller last batch of an epoch, run
 * without capture.
 */
final class CapturedPass {
    private final Device device;
    private final Generator generator;
    private final Program.Work work;
    private final Program.MarkListener markListener;
    private Program program;
    private Form form;
    private Form last;

    /** The properties in which a batch must equal the captured one for the program to be replayed. */
    private record Form(Spec input, Spec target, double weight) {
        boolean fits(Tensor otherInput, Tensor otherTarget, double otherWeight) {
            return weight == otherWeight && fits(input, otherInput.spec()) && fits(target, otherTarget.spec());
        }

        /** Compares type and shape; an input may come from any device. */
        private static boolean fits(Spec spec, Spec other) {
            return spec.dtype() == other.dtype() && spec.shape().equals(other.shape());
        }
    }

    /**
     * Creates a pass that has not captured anything yet.
     *
     * @param device where the pass runs
     * @param work the pass, as a function of input and target
     * @param markListener is notified of the marks of a replayed pass
     */
    CapturedPass(Device device, Generator generator, Program.Work work, Program.MarkListener markListener) {
        this.device = device;
        this.generator = generator;
        this.work = work;
        this.markListener = markListener;
    }

    /**
     * Replays or captures the pass and returns its outputs. Returns {@code null} if the caller has to run the pass
     * itself.
     */
    Tensor[] run(Tensor input, Tensor target, double weight) {
        if (program != null && !program.isCurrent()) {
            close();
        }
        if (program != null && form.fits(input, target, weight)) {
            last = form;
            return program.run(markListener, input, target);
        }
        if (last == null || !last.fits(input, target, weight)) {
            last = new Form(input.spec(), target.spec(), weight);
            return null;
        }
        close();
        Program.Captured captured = Program.capture(generator, work, input.to(device), target.to(device));
        program = captured.program();
        form = new Form(input.spec(), target.spec(), weight);
        last = form;
        return captured.outputs();
    }

    void close() {
        if (program != null) {
            program.close();
            program = null;
        }
        last = null;
    }
}
