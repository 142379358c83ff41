// SPDX-License-Identifier: Apache-2.0
// Before the first paint: the theme that was chosen here before; none means the system's.
document.documentElement.dataset.theme = localStorage.getItem("tandem.theme") || "";
