package dev.starling.samples.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Probe;

/**
 * Where a process trains.
 *
 * @param device on what
 * @param warning what is unwise about it, or {@code null}
 */
record Placement(Device device, String warning) {
    private static final String VISIBLE = "CUDA_VISIBLE_DEVICES";

    /**
     * Returns the device that was asked for; of GPUs without a number the process's own, as far as there are enough.
     *
     * @param asked as on the command line
     * @param localRank number of this process among those of its host
     * @param localWorkers how many of them train
     */
    static Placement of(String asked, int localRank, int localWorkers) {
        int devices = localWorkers > 1 && asked.equals("cuda")
                && Device.probes().get(asked) instanceof Probe.Ready ready ? ready.devices() : 1;
        // Whoever starts a process may show it one GPU, another to each.
        return of(asked, localRank, localWorkers, devices, devices == 1 && System.getenv(VISIBLE) != null);
    }

    /** As above, on a host with so many GPUs, which may be this process's own. */
    static Placement of(String asked, int localRank, int localWorkers, int devices, boolean own) {
        if (!asked.matches("[a-z][a-z-]*(:\\d{1,3})?")) {
            throw new IllegalArgumentException("--device must be cpu, cuda or cuda:N, got " + asked);
        }
        String[] parts = asked.split(":", 2);
        if (parts.length == 2 || !asked.equals("cuda")) {
            Device device = Device.of(parts[0], parts.length == 2 ? Integer.parseInt(parts[1]) : 0);
            return new Placement(device, localWorkers > 1 && parts[0].equals("cuda") && !own ? localWorkers
                    + " workers with these options share " + device + ": with --device cuda each takes one of its own"
                    : null);
        }
        return new Placement(Device.of(asked, localRank % devices), localWorkers <= devices || own ? null
                : localWorkers + " workers share " + devices + (devices == 1 ? " GPU" : " GPUs") + " of this host, and "
                + "gradients go through the host's memory: start " + devices);
    }
}
