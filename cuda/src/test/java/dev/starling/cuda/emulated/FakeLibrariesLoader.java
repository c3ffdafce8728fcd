package dev.starling.cuda.emulated;

import org.junit.platform.launcher.LauncherSession;
import org.junit.platform.launcher.LauncherSessionListener;

/**
 * Loads the fake libraries before any test: bindings that once failed to find NVIDIA's never look again in the process.
 */
public final class FakeLibrariesLoader implements LauncherSessionListener {
    @Override
    public void launcherSessionOpened(LauncherSession session) {
        if (FakeLibraries.areAvailable()) {
            FakeLibraries.load();
        }
    }
}
