package dev.starling.tensor.cpu;

import dev.starling.tensor.Device;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;

/** Offers the processor: always there. */
public final class CpuProvider implements BackendProvider {
    @Override
    public String type() {
        return "cpu";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(1, Runtime.getRuntime().availableProcessors() + " processors, "
                + System.getProperty("os.arch") + ", " + OneDnn.description()
                + (OneDnn.available() ? "" : ": " + OneDnn.remedy()));
    }

    @Override
    public Backend open(Device device) {
        return new CpuBackend();
    }
}
