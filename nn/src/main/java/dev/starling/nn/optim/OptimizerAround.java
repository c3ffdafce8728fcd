package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import java.util.List;
import java.util.Map;

/** An optimiser that does something before or after the steps of another one, to which it leaves everything else. */
interface OptimizerAround extends Optimizer {
    /** Returns the other optimiser. */
    Optimizer inner();

    @Override
    default Map<String, String> settings() {
        return inner().settings();
    }

    @Override
    default int notFinite(Tensor[] gradients) {
        return inner().notFinite(gradients);
    }

    @Override
    default boolean skipped() {
        return inner().skipped();
    }

    @Override
    default void requireFinite() {
        inner().requireFinite();
    }

    @Override
    default String path(int parameter) {
        return inner().path(parameter);
    }

    @Override
    default List<Parameter> parameters() {
        return inner().parameters();
    }

    @Override
    default long steps() {
        return inner().steps();
    }

    @Override
    default double rate() {
        return inner().rate();
    }

    @Override
    default double rate(int parameter) {
        return inner().rate(parameter);
    }

    @Override
    default Map<String, Parameter> state() {
        return inner().state();
    }

    @Override
    default void resume(long steps) {
        inner().resume(steps);
    }

    @Override
    default long[] missed() {
        return inner().missed();
    }

    @Override
    default void resume(long steps, long[] missed) {
        inner().resume(steps, missed);
    }
}
