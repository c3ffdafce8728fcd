package dev.starling.cuda.bench;

import dev.starling.tensor.Device;

/** All that is measured, for those who want it run and not timed. */
public final class Benchmarks {
    private Benchmarks() { }

    /** Runs every case once in its small size; what fails is passed over. */
    public static void runOnce(Device device) {
        Device.with(device, () -> {
            for (Workload workload : Workload.all(true)) {
                try (Case small = Cases.of(workload)) {
                    small.run();
                } catch (RuntimeException e) {
                    System.err.println(workload.order() + " did not run on " + device + ": " + e.getMessage());
                }
            }
            return null;
        });
    }
}
