package dev.starling.tensor.cpu;

import dev.starling.tensor.Device;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Library;
import dev.starling.tensor.spi.Probe;
import dev.starling.tensor.spi.VectorApi;
import java.util.List;

/** Provides the CPU, which is always present. */
public final class CpuProvider implements BackendProvider {
    @Override
    public String type() {
        return "cpu";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(1, Runtime.getRuntime().availableProcessors() + " processors, "
                + System.getProperty("os.arch") + ", " + MachineCode.description() + ", "
                + (OneDnn.available() ? OneDnn.description() : "without oneDNN"));
    }

    @Override
    public List<Library> libraries() {
        return OneDnn.available() ? List.of() : List.of(new Library("oneDNN", OneDnn.description(), OneDnn.remedy()));
    }

    @Override
    public int certain() {
        return 1;
    }

    @Override
    public Backend open(Device device) {
        FirstUse.prepare();
        if (!VectorApi.isPresent() && MachineCode.VECTOR_BITS == 0) {
            System.getLogger("dev.starling.tensor").log(System.Logger.Level.INFO,
                    "kernels run without vector instructions: {0}", VectorApi.obstacle());
        }
        return new CpuBackend();
    }
}
