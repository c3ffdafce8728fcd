package dev.starling.tensor.op;

import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Copies a tensor to another device.
 *
 * @param target the device to copy to
 */
public record Transfer(Device target) implements Op {
    @Override
    public Spec[] infer(Spec... in) {
        Check.operands(this, in, 1, 1);
        return new Spec[] {new Spec(in[0].dtype(), in[0].shape(), target)};
    }

    @Override
    public Tensor[] vjp(Backward b) {
        return new Tensor[] {b.grad().to(b.in(0).device())};
    }
}
