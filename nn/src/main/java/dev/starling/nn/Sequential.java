package dev.starling.nn;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Epilogue;
import java.util.ArrayList;
import java.util.List;

/**
 * Layers applied one after another, named {@code 0}, {@code 1}, and so on. A {@link Fusible} layer computes the
 * {@linkplain Layer#epilogue activation} that directly follows it in the same pass. If nothing is recorded, each
 * intermediate result is freed as soon as the next one is computed.
 */
public final class Sequential implements Layer, Container {
    private final List<Layer> layers;
    private final Layer[] steps;
    /** By step, the first layer that it computes. */
    private final int[] firsts;

    private Sequential(List<Layer> layers) {
        this.layers = List.copyOf(layers);
        List<Layer> fused = new ArrayList<>();
        firsts = new int[layers.size()];
        for (int i = 0; i < layers.size(); i++) {
            firsts[fused.size()] = i;
            Epilogue next = i + 1 < layers.size() ? layers.get(i + 1).epilogue() : Epilogue.NONE;
            if (layers.get(i) instanceof Fusible first && next != Epilogue.NONE) {
                fused.add(x -> first.forward(x, next));
                i++;
            } else {
                fused.add(layers.get(i));
            }
        }
        steps = fused.toArray(Layer[]::new);
    }

    /** Chains layers. */
    public static Sequential of(Layer... layers) {
        return new Sequential(List.of(layers));
    }

    /** Chains layers. */
    public static Sequential of(List<Layer> layers) {
        return new Sequential(layers);
    }

    /** Returns the layers. */
    public List<Layer> layers() {
        return layers;
    }

    @Override
    public Tensor forward(Tensor x) {
        if (Trace.CURRENT.isBound()) {
            Tensor y = x;
            for (Layer layer : layers) {
                y = layer.apply(y);
            }
            return y;
        }
        if (Recorder.current() == Recorder.NONE) {
            return computeAndFree(x);
        }
        Tensor y = x;
        for (int i = 0; i < steps.length; i++) {
            y = compute(i, y);
        }
        return y;
    }

    private Tensor compute(int step, Tensor x) {
        try {
            return steps[step].forward(x);
        } catch (TensorException e) {
            throw LayerPath.within(this, LayerPath.within(layers.get(firsts[step]), e));
        }
    }

    private Tensor computeAndFree(Tensor x) {
        Tensor y = x;
        boolean freeable = false;
        for (int i = 0; i < steps.length; i++) {
            Tensor next;
            boolean owned;
            try (Scope scope = Scope.open("layer")) {
                next = compute(i, y);
                owned = scope.owns(next);
                scope.keep(next);
            }
            if (freeable && !next.sharesMemoryWith(y)) {
                y.close();
                freeable = owned;
            } else {
                freeable |= owned;
            }
            y = next;
        }
        return y;
    }

    @Override
    public Sequential with(String name, Module replacement) {
        List<Layer> changed = new ArrayList<>(layers);
        for (int i = 0; i < changed.size(); i++) {
            if (name.equals(Integer.toString(i)) && replacement instanceof Layer layer) {
                changed.set(i, layer);
                return new Sequential(changed);
            }
        }
        throw Container.refuse(this, name, replacement);
    }

    @Override
    public Sequential folded() {
        List<Layer> result = new ArrayList<>();
        for (Layer layer : layers) {
            Layer joined = layer instanceof Foldable next && !result.isEmpty() ? next.foldedInto(result.getLast())
                    : null;
            if (joined == null) {
                result.add(layer.folded());
            } else {
                result.set(result.size() - 1, joined);
            }
        }
        return new Sequential(result);
    }

    @Override
    public void visit(Visitor visitor) {
        for (int i = 0; i < layers.size(); i++) {
            visitor.layer(Integer.toString(i), layers.get(i));
        }
    }

    @Override
    public String toString() {
        return tree();
    }
}
