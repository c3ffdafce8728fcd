package dev.starling.nn.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.program.Program;

/**
 * Forward and backward pass of a step as a program. A form of batch that comes twice in a row is captured the second
 * time and replayed from then on; others, such as an epoch's last and smaller batch, run as they would without.
 */
final class CapturedPass {
    private final Device device;
    private final Generator generator;
    private final Program.Work work;
    private final Program.MarkListener listener;
    private Program program;
    private Form form;
    private Form last;

    /** What must be alike for a program to do. */
    private record Form(Spec input, Spec target, double weight) {
        boolean fits(Tensor otherInput, Tensor otherTarget, double otherWeight) {
            return weight == otherWeight && fits(input, otherInput.spec()) && fits(target, otherTarget.spec());
        }

        /** Inputs may come from any device. */
        private static boolean fits(Spec spec, Spec other) {
            return spec.dtype() == other.dtype() && spec.shape().equals(other.shape());
        }
    }

    /**
     * Captures nothing yet.
     *
     * @param device where the pass runs
     * @param work the pass, of input and target
     * @param listener what is told of its marks
     */
    CapturedPass(Device device, Generator generator, Program.Work work, Program.MarkListener listener) {
        this.device = device;
        this.generator = generator;
        this.work = work;
        this.listener = listener;
    }

    /** Runs or captures the pass, and returns its outputs, or {@code null} if it is to run without this. */
    Tensor[] run(Tensor input, Tensor target, double weight) {
        if (program != null && !program.isCurrent()) {
            close();
        }
        if (program != null && form.fits(input, target, weight)) {
            last = form;
            return program.run(listener, input, target);
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
