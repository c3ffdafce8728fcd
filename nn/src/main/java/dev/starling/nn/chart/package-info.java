/** Charts as SVG or PNG, for the classes of other packages that draw. Not exported. */
package dev.starling.nn.chart;
