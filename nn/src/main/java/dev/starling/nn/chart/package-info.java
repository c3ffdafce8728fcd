/** Pictures of numbers, as SVG or PNG. Not exported: what draws is part of other packages. */
package dev.starling.nn.chart;
