package dev.starling.jmh.nn;

import dev.starling.jmh.Model;
import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Update;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Training steps. */
public class TrainingStepBenchmark extends PeerBenchmark {
    @Param({"MLP", "CNN", "RESNET18", "LSTM", "GPT"})
    Model model;

    @Param({"32", "128"})
    int batch;

    @Override
    protected Workload workload() {
        return new Workload.TrainingStep(model, batch, Update.SGD);
    }
}
